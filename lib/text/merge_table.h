// Pairs of adjacent tokens that may merge: (left, right) -> (rank, merged), one flat hash table, one cache line a look-up.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/text/vocab_data.h"

namespace dsv31::inline v1::text {

inline constexpr std::uint32_t kNoRank = 0xFFFFFFFFu;

struct Merge {
  std::uint32_t rank = kNoRank;  // lower merges first
  Token merged = kNoToken;
};

class MergeTable {
 public:
  MergeTable() = default;
  // By rank; of a pair that is listed twice the first rank counts.
  explicit MergeTable(std::span<const MergeRule> rules);

  Merge find(Token left, Token right) const noexcept {
    const std::uint64_t key =
        static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
    for (std::size_t i = slot_of(key);; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return slots_[i].merge;
      if (slots_[i].key == kEmpty) return {};
    }
  }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = kEmpty;
    Merge merge;
  };
  std::size_t slot_of(std::uint64_t key) const noexcept {
    std::uint64_t h = key * 0x9FB21C651E98DF25u;
    h = (h ^ (h >> 32)) * 0xA24BAED4963EE407u;
    return (h ^ (h >> 29)) & mask_;
  }

  std::vector<Slot> slots_ = std::vector<Slot>(1);  // a power of two, at most five eighths full
  std::size_t mask_ = 0;
};

}  // namespace dsv31::inline v1::text
