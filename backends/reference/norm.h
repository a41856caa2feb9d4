// Root-mean-square normalisation of one row, in place (Zhang and Sennrich, 2019): x = weight * x / sqrt(mean(x^2) + eps).
#pragma once

#include <cmath>

#include "backends/reference/rows_op.h"

namespace dsv31::inline v1::reference {

class RmsNorm {
 public:
  RmsNorm(const PrepareContext& p, const Norm& norm)
      : present_(norm.weight != kNone), weight_(vector_of(p, norm.weight)), eps_(norm.eps) {}

  // x (width). Without a weight there is no norm.
  void operator()(double* x, std::int64_t width) const {
    if (!present_) return;
    double sum = 0;
    for (std::int64_t i = 0; i < width; ++i) sum += x[i] * x[i];
    const double scale = 1 / std::sqrt(sum / static_cast<double>(width) + static_cast<double>(eps_));
    for (std::int64_t i = 0; i < width; ++i) x[i] = static_cast<double>(weight_[i]) * (x[i] * scale);
  }
  void operator()(const Tile& x) const {
    for (std::int64_t i = 0; i < x.m; ++i) (*this)(x.row(i), x.width);
  }

 private:
  bool present_;
  const float* weight_;  // (width)
  float eps_;
};

}  // namespace dsv31::inline v1::reference
