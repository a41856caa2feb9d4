// What attention and the output head share: the soft cap of a score, which keys a row sees, and a softmax over them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "dsv31/backend.h"

namespace dsv31::inline v1::reference {

// cap(s) = softcap * tanh(s / softcap); no cap where softcap is 0.
inline double soft_cap(double s, float softcap) {
  const double cap = static_cast<double>(softcap);
  return cap > 0 ? cap * std::tanh(s / cap) : s;
}

// The keys that row r of the step sees in a layer whose own window is `layer_window`; 0: none.
inline VisibleKeys keys_of_row(const Step& step, std::int64_t layer_window, std::int64_t r) {
  const auto i = static_cast<std::size_t>(r);
  return visible_keys(step.sequences[static_cast<std::size_t>(step.sequence_of_row[i])].window, layer_window, step.positions[i]);
}

// Calls add(n, exp(score(n) - max)) for each n in [0, count) and returns the sum of these weights. Scores are computed twice, so
// that none has to be stored.
template <class Score, class Add>
double softmax_weights(std::int64_t count, Score score, Add add) {
  double max = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::int64_t n = 0; n < count; ++n) max = std::max(max, score(n));
  for (std::int64_t n = 0; n < count; ++n) {
    const double p = std::exp(score(n) - max);
    sum += p;
    add(n, p);
  }
  return sum;
}

}  // namespace dsv31::inline v1::reference
