// Logits of a whole vocabulary with the largest of each 64: what it takes to find the few tokens that matter without a list of
// all and without a sort.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "dsv31/tokenizer.h"

namespace dsv31::inline v1::session {

struct Candidate {
  Token id;
  float logit;
};

// Falling logits, ties by id.
inline bool before(const Candidate& a, const Candidate& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; }

class LogitBlocks {
 public:
  // -infinity is a token that is out. False where a logit is NaN or +infinity. The logits must outlive their use here.
  bool assign(std::span<const float> logits);

  bool empty() const noexcept { return highest_ == -std::numeric_limits<float>::infinity(); }
  float highest() const noexcept { return highest_; }
  Token first_highest() const;  // the lowest id of the highest logit
  // Appends the tokens with a logit of `floor` or more, by id.
  void collect(double floor, std::vector<Candidate>& to) const;
  // A logit that at least n tokens reach, usually few more: the n-th largest of the blocks' maxima. -infinity where there are
  // fewer blocks with a token.
  float reached_by(std::size_t n);
  // Sums of exp(logit - highest()) over the tokens at or above `floor` and over those below it, each within 1 +- kSumError.
  struct Mass {
    double above = 0, below = 0;
  };
  Mass rough_mass(float floor) const;
  static constexpr double kSumError = 1e-5;

 private:
  std::span<const float> logits_;
  std::vector<float> maxima_;  // (ceil(n / 64))
  std::vector<float> order_;   // scratch of reached_by
  float highest_ = 0;
};

}  // namespace dsv31::inline v1::session
