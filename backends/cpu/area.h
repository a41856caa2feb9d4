// Scratch handed out piece by piece, each at a multiple of 64 bytes. The same function that lays out an op's scratch also tells
// its size: it is run once on an area without memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dsv31::inline v1::cpu {

class Area {
 public:
  explicit Area(std::byte* base = nullptr) : base_(reinterpret_cast<std::uintptr_t>(base)) {}

  template <class T>
  T* take(std::int64_t n) {
    T* p = reinterpret_cast<T*>(base_ + used_);
    used_ += (static_cast<std::size_t>(n) * sizeof(T) + 63) / 64 * 64;
    return p;
  }
  std::size_t used() const { return used_; }

 private:
  std::uintptr_t base_;
  std::size_t used_ = 0;
};

}  // namespace dsv31::inline v1::cpu
