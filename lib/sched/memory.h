// Every large block of memory of a runtime: counted by class, held to one budget, taken through the host's hooks.
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "dsv31/runtime.h"

namespace dsv31::inline v1::sched {

enum class MemoryClass { weights, cache, scratch };

class Accountant;

// A block of memory that knows where it came from. Starts at a multiple of 64 bytes.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& o) noexcept;
  Buffer& operator=(Buffer&& o) noexcept;
  ~Buffer();

  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }

 private:
  friend class Accountant;
  std::shared_ptr<Accountant> owner_;
  MemoryClass kind_ = MemoryClass::scratch;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

class Accountant : public std::enable_shared_from_this<Accountant> {
 public:
  Accountant(const Allocator& hooks, std::uint64_t budget) : hooks_(hooks), budget_(budget) {}

  // Throws no_memory, with the number that would do, when the budget would be passed or the allocator has no more. bytes 0 is
  // empty.
  Buffer allocate(MemoryClass kind, std::size_t bytes, std::string_view where);
  // The same, zeroed.
  Buffer allocate_zeroed(MemoryClass kind, std::size_t bytes, std::string_view where);
  MemoryUse use() const;

 private:
  friend class Buffer;
  void release(MemoryClass kind, std::byte* data, std::size_t bytes) noexcept;
  std::uint64_t& of(MemoryClass kind);

  const Allocator hooks_;
  const std::uint64_t budget_;  // 0: none
  mutable std::mutex mutex_;
  MemoryUse use_;
};

}  // namespace dsv31::inline v1::sched
