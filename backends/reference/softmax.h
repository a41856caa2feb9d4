// What attention and the output head share: the soft cap of a score, which keys a row sees, and a softmax over them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace dsv31::inline v1::reference {

// cap(s) = softcap * tanh(s / softcap); no cap where softcap is 0.
inline double soft_cap(double s, float softcap) {
  const double cap = static_cast<double>(softcap);
  return cap > 0 ? cap * std::tanh(s / cap) : s;
}

// The first key position that a row at `position` sees; the last one is its own.
constexpr std::int64_t first_visible(std::int64_t position, std::int64_t window) {
  return window > 0 && position >= window ? position - window + 1 : 0;
}

// Calls add(t, exp(score(t) - max)) for each t in [first, last] and returns the sum of these weights. Scores are computed twice,
// so that none has to be stored.
template <class Score, class Add>
double softmax_weights(std::int64_t first, std::int64_t last, Score score, Add add) {
  double max = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::int64_t t = first; t <= last; ++t) max = std::max(max, score(t));
  for (std::int64_t t = first; t <= last; ++t) {
    const double p = std::exp(score(t) - max);
    sum += p;
    add(t, p);
  }
  return sum;
}

}  // namespace dsv31::inline v1::reference
