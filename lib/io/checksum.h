// XXH64 with seed 0: a 64-bit checksum at the speed of memory, for damage on disk and on the way. It is no proof against intent:
// who can write the file can write its checksum. Source: Yann Collet, xxHash fast digest algorithm (XXH64), specification 0.1.1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace dsv31::inline v1::io {

// Of bytes given in any pieces; the value depends on the bytes alone.
class Checksum {
 public:
  void add(const void* data, std::size_t n) noexcept;
  std::uint64_t value() const noexcept;  // of all bytes so far

 private:
  std::array<std::uint64_t, 4> lane_{0x60EA27EEADC0B5D6u, 0xC2B2AE3D27D4EB4Fu, 0, 0x61C8864E7A143579u};
  std::array<std::byte, 32> tail_{};  // bytes that do not fill a block yet
  std::size_t filled_ = 0;
  std::uint64_t total_ = 0;
};

std::uint64_t checksum(const void* data, std::size_t n) noexcept;
std::string checksum_text(std::uint64_t value);  // 16 hexadecimal digits

}  // namespace dsv31::inline v1::io
