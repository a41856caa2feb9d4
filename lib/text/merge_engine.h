// Byte-pair merging: of all adjacent pairs that may merge, always the one of the lowest rank (the leftmost among equals), until
// none is left. The naive loop is quadratic, and a piece may be the whole of a 16 MiB text.
//
// Method. Candidates (rank, position) wait in a binary heap of 64-bit keys, so that the smallest key is the next merge; a
// candidate whose pair has changed since is recognised when it comes up and dropped. Symbols need no linked list: slots[i] holds
// the token that starts at byte i, the last byte of a longer token holds the same id with kEnd set, all bytes between are kDead.
// The next symbol is length(token) ahead, the previous one is read off its last byte. That is 4 bytes a byte for the symbols, and
// the heap has room for 5/4 of the symbols at 8 bytes: when it is full, stale candidates are swept out, which can happen a few
// times at most since each merge leaves at most one entry more than it took. No recursion; O(n log n) steps, each counted in
// Work.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/text/merge_table.h"

namespace dsv31::inline v1::text {

// What encoding has cost, for tests of its growth.
struct Work {
  std::uint64_t symbols = 0;     // characters or bytes that entered a merge
  std::uint64_t lookups = 0;     // of pairs
  std::uint64_t heap_moves = 0;  // entries moved in the heap
  std::uint64_t sweeps = 0;      // entries looked at when the heap was full
  std::uint64_t scanned = 0;     // bytes that the special-token scan and the pre-tokenizer's own scanners looked at
};

namespace slot {
inline constexpr std::uint32_t kDead = 0xFFFFFFFFu;
inline constexpr std::uint32_t kEnd = 0x80000000u;
// A symbol that is no token: its length in bytes is in the low bits.
inline constexpr std::uint32_t kPseudo = 0x40000000u;
inline bool starts(std::uint32_t s) noexcept { return s < kEnd; }
}  // namespace slot

class CandidateHeap {
 public:
  // Room for `symbols` and a quarter more.
  void reset(std::size_t symbols) {
    const std::size_t capacity = symbols + symbols / 4 + 64;
    if (capacity > capacity_) {
      entries_.reset();
      entries_ = std::make_unique_for_overwrite<std::uint64_t[]>(capacity);
      capacity_ = capacity;
    }
    size_ = 0;
  }
  void release() noexcept {
    entries_.reset();
    capacity_ = size_ = 0;
  }
  bool empty() const noexcept { return size_ == 0; }
  bool full() const noexcept { return size_ == capacity_; }
  static std::uint64_t key(std::uint32_t rank, std::uint32_t position) noexcept {
    return static_cast<std::uint64_t>(rank) << 32 | position;
  }
  void append(std::uint64_t k) noexcept { entries_[size_++] = k; }  // heapify() before the next pop
  void heapify(Work& work) noexcept {
    for (std::size_t i = size_ / 2; i-- > 0;) sift_down(i, work);
  }
  void push(std::uint64_t k, Work& work) noexcept {
    std::size_t i = size_++;
    for (; i > 0 && entries_[(i - 1) / 2] > k; i = (i - 1) / 2, ++work.heap_moves) entries_[i] = entries_[(i - 1) / 2];
    entries_[i] = k;
    ++work.heap_moves;
  }
  std::uint64_t pop(Work& work) noexcept {
    const std::uint64_t top = entries_[0];
    entries_[0] = entries_[--size_];
    if (size_ > 1) sift_down(0, work);
    return top;
  }
  template <class Live>
  void sweep(const Live& live, Work& work) noexcept {
    work.sweeps += size_;
    std::uint64_t* const begin = entries_.get();
    std::uint64_t* const end = std::remove_if(begin, begin + size_, [&](std::uint64_t k) { return !live(k); });
    // Scores may be equal, so that a position can have waited twice with the same key. A sorted array is a heap.
    std::sort(begin, end);
    size_ = static_cast<std::size_t>(std::unique(begin, end) - begin);
  }

 private:
  void sift_down(std::size_t i, Work& work) noexcept {
    const std::uint64_t k = entries_[i];
    for (std::size_t child; (child = 2 * i + 1) < size_; i = child, ++work.heap_moves) {
      if (child + 1 < size_ && entries_[child + 1] < entries_[child]) ++child;
      if (entries_[child] >= k) break;
      entries_[i] = entries_[child];
    }
    entries_[i] = k;
    ++work.heap_moves;
  }

  std::unique_ptr<std::uint64_t[]> entries_;
  std::size_t size_ = 0, capacity_ = 0;
};

// Slots of one piece and the heap, kept between pieces of a call.
struct MergeScratch {
  std::unique_ptr<std::uint32_t[]> slots;
  std::size_t capacity = 0;
  CandidateHeap heap;

  std::uint32_t* reset(std::size_t bytes) {
    if (bytes > capacity) {
      slots.reset();
      slots = std::make_unique_for_overwrite<std::uint32_t[]>(bytes);
      capacity = bytes;
    }
    return slots.get();
  }
};

// Merges the symbols of slots[0, n). `Pairs` tells
//   std::uint32_t length(std::uint32_t symbol)                          bytes of a token or pseudo symbol
//   Merge find(std::size_t at, std::uint32_t left, std::uint32_t right) of the pair whose left symbol starts at `at`
// and length(merged) = length(left) + length(right).
template <class Pairs>
void merge_by_heap(const Pairs& pairs, MergeScratch& scratch, std::size_t n, std::size_t symbols, Work& work) {
  std::uint32_t* const s = scratch.slots.get();
  CandidateHeap& heap = scratch.heap;
  heap.reset(symbols);
  work.symbols += symbols;
  const auto pair_at = [&](std::size_t at) -> Merge {
    const std::size_t right = at + pairs.length(s[at]);
    if (right >= n) return {};
    ++work.lookups;
    return pairs.find(at, s[at], s[right]);
  };
  const auto live = [&](std::uint64_t key) {
    const std::size_t at = key & 0xFFFFFFFFu;
    return slot::starts(s[at]) && pair_at(at).rank == key >> 32;
  };
  const auto offer = [&](std::size_t at) {
    const Merge m = pair_at(at);
    if (m.rank == kNoRank) return;
    if (heap.full()) heap.sweep(live, work);
    heap.push(CandidateHeap::key(m.rank, static_cast<std::uint32_t>(at)), work);
  };

  for (std::size_t at = 0; at < n; at += pairs.length(s[at]))
    if (const Merge m = pair_at(at); m.rank != kNoRank) heap.append(CandidateHeap::key(m.rank, static_cast<std::uint32_t>(at)));
  heap.heapify(work);

  while (!heap.empty()) {
    const std::uint64_t key = heap.pop(work);
    const std::size_t at = key & 0xFFFFFFFFu;
    if (!slot::starts(s[at])) continue;
    const Merge m = pair_at(at);
    if (m.rank != key >> 32) continue;
    const std::size_t right = at + pairs.length(s[at]);
    const std::size_t end = right + pairs.length(s[right]);
    s[right - 1] = s[right] = slot::kDead;
    s[end - 1] = static_cast<std::uint32_t>(m.merged) | slot::kEnd;
    s[at] = static_cast<std::uint32_t>(m.merged);
    if (at > 0) {
      const std::uint32_t before = s[at - 1];
      offer(at - pairs.length(before & ~slot::kEnd));
    }
    offer(at);
  }
}

}  // namespace dsv31::inline v1::text
