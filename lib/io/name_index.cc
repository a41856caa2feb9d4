#include "lib/io/name_index.h"

#include <bit>
#include <cstring>

#include "dsv31/error.h"

namespace dsv31::inline v1::io {

// Eight bytes a step, multiply and rotate, then a full avalanche: the low bits choose the slot, the high ones are the tag.
std::uint64_t NameIndex::hash(std::string_view name) noexcept {
  constexpr std::uint64_t a = 0x9E3779B97F4A7C15u, b = 0xD6E8FEB86659FD93u;
  std::uint64_t h = name.size() * a;
  const char* p = name.data();
  std::size_t n = name.size();
  for (; n >= 8; p += 8, n -= 8) {
    std::uint64_t w;
    std::memcpy(&w, p, 8);
    h = std::rotl(h ^ (w * b), 31) * a;
  }
  std::uint64_t w = 0;
  if (n > 0) std::memcpy(&w, p, n);
  h = (h ^ (w * b)) * a;
  h = (h ^ (h >> 32)) * b;
  h = (h ^ (h >> 29)) * a;
  return h ^ (h >> 32);
}

void NameIndex::grow(std::size_t slots) { slots_ = std::vector<Slot>(slots); }

void NameIndex::reserve(std::size_t count) {
  if (used_ == 0 && slots_.size() < 2 * (count + 1)) grow(std::bit_ceil(2 * (count + 1)));
}

void NameIndex::spend(std::string_view where) {
  if (++probes_ > 64 * (used_ + 64))
    throw Error(Code::limit, where, "names: got a set that collides in the name table, expected at most 64 probes a name");
}

}  // namespace dsv31::inline v1::io
