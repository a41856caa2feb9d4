// The k largest of a stream of scores with their positions, which come in ascending order; ties go to the lowest position. A
// buffer is cut back to k by its k-th largest score whenever it is full (threshold select): linear in the stream, and the memory
// is that of the buffer however long the stream is. Whatever does not pass the threshold is dropped at once.
//
// Scores are compared as integers in the order of floats, so that a NaN has its place too and every comparison is a total order.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>

namespace dsv31::inline v1::cpu {

inline std::int32_t ordered(float score) {
  const auto bits = std::bit_cast<std::int32_t>(score);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}

class TopPositions {
 public:
  // Entries of the three arrays that a stream in runs of at most `run` scores takes.
  static constexpr std::int64_t capacity(std::int64_t k, std::int64_t run) { return k + std::max(k, 4 * run); }

  // scores, positions, spare (capacity)
  TopPositions(std::int64_t k, std::int64_t capacity, std::int32_t* scores, std::int32_t* positions, std::int32_t* spare)
      : k_(k), capacity_(capacity), scores_(scores), positions_(positions), spare_(spare) {}

  // Makes room for a run of n scores.
  void reserve(std::int64_t n) {
    if (count_ + n > capacity_) cut();
  }
  void push(std::int32_t score, std::int32_t position) {
    if (full_ && score <= threshold_) return;
    scores_[count_] = score;
    positions_[count_++] = position;
  }
  // At most k entries are left, positions ascending.
  void cut() {
    if (count_ <= k_) return;
    std::copy_n(scores_, count_, spare_);
    std::nth_element(spare_, spare_ + k_ - 1, spare_ + count_, std::greater<std::int32_t>());
    threshold_ = spare_[k_ - 1];
    full_ = true;
    std::int64_t ties = k_ - std::count_if(scores_, scores_ + count_, [&](std::int32_t s) { return s > threshold_; });
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < count_; ++i) {
      if (scores_[i] < threshold_ || (scores_[i] == threshold_ && ties-- <= 0)) continue;
      scores_[kept] = scores_[i];
      positions_[kept++] = positions_[i];
    }
    count_ = kept;
  }

  std::int64_t count() const { return count_; }
  const std::int32_t* scores() const { return scores_; }
  const std::int32_t* positions() const { return positions_; }

 private:
  std::int64_t k_, capacity_;
  std::int32_t *scores_, *positions_, *spare_;
  std::int64_t count_ = 0;
  std::int32_t threshold_ = 0;  // once full: what comes later must be larger, since ties go to the lower position
  bool full_ = false;
};

}  // namespace dsv31::inline v1::cpu
