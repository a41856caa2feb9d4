// Byte strings to token ids: the lookup on the hot path of every tokenizer. Open addressing over (id, tag) pairs; the strings
// stay in the vocabulary's arena. Building counts probes, so a vocabulary made to collide is refused instead of slow.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "dsv31/error.h"
#include "dsv31/tokenizer.h"

namespace dsv31::inline v1::text {

inline std::uint64_t hash_bytes(std::string_view s) noexcept {
  constexpr std::uint64_t a = 0x9FB21C651E98DF25u, b = 0xA24BAED4963EE407u;
  std::uint64_t h = s.size() * a;
  const char* p = s.data();
  std::size_t n = s.size();
  for (; n >= 8; p += 8, n -= 8) {
    std::uint64_t w;
    std::memcpy(&w, p, 8);
    h = std::rotl((h ^ w) * b, 29) * a;
  }
  std::uint64_t w = 0;
  for (std::size_t i = 0; i < n; ++i) w |= static_cast<std::uint64_t>(static_cast<unsigned char>(p[i])) << (8 * i);
  h = (h ^ w) * b;
  h = (h ^ (h >> 31)) * a;
  return h ^ (h >> 29);
}

class TokenMap {
 public:
  void reserve(std::size_t count) { grow(std::bit_ceil(count + count / 2 + 16)); }

  // Adds id under s; returns the id that has s already (nothing is added then), else kNoToken. name_of(id) gives the string of an
  // id.
  template <class NameOf>
  Token insert(std::string_view s, Token id, const NameOf& name_of) {
    if (4 * (used_ + 1) > 3 * slots_.size()) {
      const std::vector<Slot> old = std::move(slots_);
      grow(old.empty() ? 64 : 2 * old.size());
      for (const Slot& slot : old)
        if (slot.id != kNoToken) put(hash_bytes(name_of(slot.id)), slot);
    }
    const std::uint64_t h = hash_bytes(s);
    for (std::size_t i = h & mask_; slots_[i].id != kNoToken; i = (i + 1) & mask_) {
      if (slots_[i].tag == static_cast<std::uint32_t>(h >> 32) && name_of(slots_[i].id) == s) return slots_[i].id;
      spend();
    }
    put(h, {id, static_cast<std::uint32_t>(h >> 32)});
    ++used_;
    return kNoToken;
  }

  template <class NameOf>
  Token find(std::string_view s, const NameOf& name_of) const noexcept {
    if (used_ == 0) return kNoToken;
    const std::uint64_t h = hash_bytes(s);
    for (std::size_t i = h & mask_; slots_[i].id != kNoToken; i = (i + 1) & mask_)
      if (slots_[i].tag == static_cast<std::uint32_t>(h >> 32) && name_of(slots_[i].id) == s) return slots_[i].id;
    return kNoToken;
  }

  std::size_t size() const noexcept { return used_; }

 private:
  struct Slot {
    Token id = kNoToken;
    std::uint32_t tag = 0;
  };
  void grow(std::size_t slots) {
    slots_.assign(slots, Slot{});
    mask_ = slots - 1;
  }
  void put(std::uint64_t h, Slot slot) {
    std::size_t i = h & mask_;
    for (; slots_[i].id != kNoToken; i = (i + 1) & mask_) spend();
    slots_[i] = slot;
  }
  void spend() {
    if (++probes_ > 64 * (used_ + 1024))
      throw Error(Code::limit, "tokenizer",
                  "tokens: got texts that collide in the token table, expected at most 64 probes a token");
  }

  std::vector<Slot> slots_;  // a power of two, at most three quarters full
  std::size_t mask_ = 0, used_ = 0, probes_ = 0;
};

}  // namespace dsv31::inline v1::text
