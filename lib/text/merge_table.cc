#include "lib/text/merge_table.h"

#include <bit>

namespace dsv31::inline v1::text {

MergeTable::MergeTable(std::span<const MergeRule> rules) {
  std::size_t count = std::bit_ceil(rules.size() + 2);
  if (8 * (rules.size() + 1) > 5 * count) count *= 2;
  slots_.assign(count, Slot{});
  mask_ = count - 1;
  std::size_t probes = 0;
  for (std::size_t rank = 0; rank < rules.size(); ++rank) {
    const MergeRule& r = rules[rank];
    const std::uint64_t key =
        static_cast<std::uint64_t>(static_cast<std::uint32_t>(r.left)) << 32 | static_cast<std::uint32_t>(r.right);
    std::size_t i = slot_of(key);
    for (; slots_[i].key != kEmpty && slots_[i].key != key; i = (i + 1) & mask_)
      if (++probes > 64 * (rules.size() + 1024))
        throw Error(Code::limit, "tokenizer",
                    "merges: got pairs that collide in the merge table, expected at most 64 probes a merge");
    if (slots_[i].key == kEmpty) slots_[i] = {key, {static_cast<std::uint32_t>(rank), r.merged}};
  }
}

}  // namespace dsv31::inline v1::text
