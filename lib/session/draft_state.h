// What a session keeps for the layer that drafts (Graph::draft_begin): which of its cache entries hold, and the trunk's states
// that it has not read yet. Entry j is made of the state of position j and the token at j + 1, so an entry holds as long as both
// do.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dsv31/op.h"

namespace dsv31::inline v1::session {

class DraftState {
 public:
  explicit DraftState(std::int64_t width) : width_(width) {}

  std::int64_t cached() const { return cached_; }  // entries [0, cached()) hold
  std::int64_t end() const { return first_ + static_cast<std::int64_t>(states_.size()) / width_; }
  // Whether the states of all positions from cached() to trunk - 1 are here; else the trunk must compute them again.
  bool complete(std::int64_t trunk) const { return first_ <= cached_ && end() == trunk; }
  const float* state(std::int64_t position) const { return states_.data() + (position - first_) * width_; }  // (width)

  // The trunk has computed positions [position, position + rows). states: rows of row_stride(width) floats.
  void append(std::int64_t position, std::int64_t rows, const float* states) {
    if (position != end()) {
      states_.clear();
      first_ = position;
    }
    for (std::int64_t r = 0; r < rows; ++r)
      states_.insert(states_.end(), states + r * row_stride(width_), states + r * row_stride(width_) + width_);
  }
  // Entries up to n hold now; states before them are not needed any more.
  void advance(std::int64_t n) {
    cached_ = n;
    const std::int64_t gone = std::min(n, end()) - first_;
    if (gone <= 0) return;
    states_.erase(states_.begin(), states_.begin() + static_cast<std::ptrdiff_t>(gone * width_));
    first_ += gone;
  }
  // The first `tokens` tokens are left, and the first `trunk` of them in the trunk's cache.
  void truncate(std::int64_t tokens, std::int64_t trunk) {
    cached_ = std::min({cached_, std::max<std::int64_t>(tokens - 1, 0), trunk});
    if (trunk < end()) states_.resize(static_cast<std::size_t>(std::max<std::int64_t>(trunk - first_, 0) * width_));
    first_ = std::min(first_, trunk);
  }

 private:
  std::int64_t width_, cached_ = 0, first_ = 0;
  std::vector<float> states_;  // (end() - first_, width)
};

}  // namespace dsv31::inline v1::session
