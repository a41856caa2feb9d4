#include "lib/io/checksum.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace dsv31::inline v1::io {

namespace {

constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87u, kPrime2 = 0xC2B2AE3D27D4EB4Fu, kPrime3 = 0x165667B19E3779F9u,
                        kPrime4 = 0x85EBCA77C2B2AE63u, kPrime5 = 0x27D4EB2F165667C5u;

template <class T>
T load(const std::byte* p) noexcept {
  static_assert(std::endian::native == std::endian::little);
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

std::uint64_t round(std::uint64_t lane, std::uint64_t input) noexcept { return std::rotl(lane + input * kPrime2, 31) * kPrime1; }

}  // namespace

void Checksum::add(const void* data, std::size_t n) noexcept {
  const auto* p = static_cast<const std::byte*>(data);
  total_ += n;
  if (filled_ > 0) {
    const std::size_t k = std::min(n, tail_.size() - filled_);
    if (k > 0) std::memcpy(tail_.data() + filled_, p, k);
    filled_ += k, p += k, n -= k;
    if (filled_ < tail_.size()) return;
    for (std::size_t i = 0; i < 4; ++i) lane_[i] = round(lane_[i], load<std::uint64_t>(tail_.data() + 8 * i));
    filled_ = 0;
  }
  std::uint64_t a = lane_[0], b = lane_[1], c = lane_[2], d = lane_[3];
  for (; n >= 32; p += 32, n -= 32) {
    a = round(a, load<std::uint64_t>(p));
    b = round(b, load<std::uint64_t>(p + 8));
    c = round(c, load<std::uint64_t>(p + 16));
    d = round(d, load<std::uint64_t>(p + 24));
  }
  lane_ = {a, b, c, d};
  if (n > 0) std::memcpy(tail_.data(), p, n);
  filled_ = n;
}

std::uint64_t Checksum::value() const noexcept {
  std::uint64_t h = kPrime5;
  if (total_ >= 32) {
    h = std::rotl(lane_[0], 1) + std::rotl(lane_[1], 7) + std::rotl(lane_[2], 12) + std::rotl(lane_[3], 18);
    for (const std::uint64_t lane : lane_) h = (h ^ round(0, lane)) * kPrime1 + kPrime4;
  }
  h += total_;
  const std::byte* p = tail_.data();
  std::size_t n = filled_;
  for (; n >= 8; p += 8, n -= 8) h = std::rotl(h ^ round(0, load<std::uint64_t>(p)), 27) * kPrime1 + kPrime4;
  for (; n >= 4; p += 4, n -= 4) h = std::rotl(h ^ load<std::uint32_t>(p) * kPrime1, 23) * kPrime2 + kPrime3;
  for (; n > 0; ++p, --n) h = std::rotl(h ^ std::to_integer<std::uint64_t>(*p) * kPrime5, 11) * kPrime1;
  h = (h ^ h >> 33) * kPrime2;
  h = (h ^ h >> 29) * kPrime3;
  return h ^ h >> 32;
}

std::uint64_t checksum(const void* data, std::size_t n) noexcept {
  Checksum c;
  c.add(data, n);
  return c.value();
}

std::string checksum_text(std::uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace dsv31::inline v1::io
