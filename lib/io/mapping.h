// A read-only mapping of a whole file. Made at the first request, shared by all later ones, gone with its owner; pages cost
// memory only where they are touched. A file that is truncated after the mapping was made raises SIGBUS on access, which is why
// nothing in the library maps by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace dsv31::inline v1::io {

class Mapping {
 public:
  // Null where the system refuses, where the file is empty, or where it is shorter than `bytes` by now.
  static std::unique_ptr<Mapping> create(int fd, std::uint64_t bytes) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();
  const std::byte* data() const noexcept { return static_cast<const std::byte*>(base_); }

 private:
  Mapping(void* base, std::size_t bytes) noexcept : base_(base), bytes_(bytes) {}
  void* base_;
  std::size_t bytes_;
};

}  // namespace dsv31::inline v1::io
