// Rotary position embedding (Su et al., 2021): pair i of x turns by angle i, (a, b) -> (a cos - b sin, a sin + b cos).
#pragma once

#include "dsv31/op.h"

namespace dsv31::inline v1::reference {

// x (dim), in place; angles (dim) = [cos | sin] as Angles wrote them.
inline void rotate(double* x, std::int64_t dim, Pairing pairing, const float* angles) {
  for (std::int64_t i = 0; i < dim / 2; ++i) {
    double& a = pairing == Pairing::interleaved ? x[2 * i] : x[i];
    double& b = pairing == Pairing::interleaved ? x[2 * i + 1] : x[i + dim / 2];
    const double cos = static_cast<double>(angles[i]), sin = static_cast<double>(angles[dim / 2 + i]);
    const double turned = a * cos - b * sin;
    b = a * sin + b * cos;
    a = turned;
  }
}

}  // namespace dsv31::inline v1::reference
