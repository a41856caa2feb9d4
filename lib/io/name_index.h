// Names to positions in linear time. Open addressing over 32-bit positions; the names themselves stay with their owner.
//
// A hostile file may choose names that collide. Every probe is counted, and a set that needs more than 64 a name is refused, so
// building is linear for every input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace dsv31::inline v1::io {

class NameIndex {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFu;

  // For up to `count` names.
  void reserve(std::size_t count);
  // Adds position `at` under `name`; returns kNone, or the position that already has this name (nothing is added then). `name_of`
  // gives the name of a position that was added before. `where` is the surface of the limit error.
  template <class NameOf>
  std::uint32_t insert(std::string_view name, std::uint32_t at, const NameOf& name_of, std::string_view where);
  template <class NameOf>
  std::uint32_t find(std::string_view name, const NameOf& name_of) const noexcept;
  static std::uint64_t hash(std::string_view name) noexcept;
  std::uint64_t probes() const noexcept { return probes_; }  // of all inserts

 private:
  struct Slot {
    std::uint32_t at = kNone;
    std::uint32_t tag = 0;  // high half of the hash: most mismatches are seen without the name
  };
  void grow(std::size_t slots);
  void spend(std::string_view where);  // one probe

  std::vector<Slot> slots_;  // a power of two, at most half full
  std::size_t used_ = 0;
  std::uint64_t probes_ = 0;
};

template <class NameOf>
std::uint32_t NameIndex::insert(std::string_view name, std::uint32_t at, const NameOf& name_of, std::string_view where) {
  if (slots_.size() < 2 * (used_ + 1)) {
    const std::vector<Slot> old = std::move(slots_);
    grow(old.empty() ? 16 : 2 * old.size());
    for (const Slot& s : old)
      if (s.at != kNone) {
        std::size_t i = hash(name_of(s.at)) & (slots_.size() - 1);
        for (; slots_[i].at != kNone; i = (i + 1) & (slots_.size() - 1)) spend(where);
        slots_[i] = s;
      }
  }
  const std::uint64_t h = hash(name);
  const std::uint32_t tag = static_cast<std::uint32_t>(h >> 32);
  std::size_t i = h & (slots_.size() - 1);
  for (; slots_[i].at != kNone; i = (i + 1) & (slots_.size() - 1)) {
    if (slots_[i].tag == tag && name_of(slots_[i].at) == name) return slots_[i].at;
    spend(where);
  }
  slots_[i] = {at, tag};
  ++used_;
  return kNone;
}

template <class NameOf>
std::uint32_t NameIndex::find(std::string_view name, const NameOf& name_of) const noexcept {
  if (slots_.empty()) return kNone;
  const std::uint64_t h = hash(name);
  const std::uint32_t tag = static_cast<std::uint32_t>(h >> 32);
  for (std::size_t i = h & (slots_.size() - 1); slots_[i].at != kNone; i = (i + 1) & (slots_.size() - 1))
    if (slots_[i].tag == tag && name_of(slots_[i].at) == name) return slots_[i].at;
  return kNone;
}

}  // namespace dsv31::inline v1::io
