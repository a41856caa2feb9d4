// The gated feed-forward unit (Shazeer, 2020), of a dense layer and of an expert:
// y = down (activation(gate x + gate_bias) * (up x + up_bias)) + down_bias.
#pragma once

#include <cmath>

#include "backends/reference/matrix.h"

namespace dsv31::inline v1::reference {

inline double activate(Activation activation, double x) {
  if (activation == Activation::silu) return x / (1 + std::exp(-x));
  constexpr double kSqrt2OverPi = 0.79788456080286535588;
  return 0.5 * x * (1 + std::tanh(kSqrt2OverPi * (x + 0.044715 * x * x * x)));
}

inline void add_bias(const float* bias, const Tile& y) {
  if (bias == nullptr) return;
  for (std::int64_t i = 0; i < y.m; ++i)
    for (std::int64_t j = 0; j < y.width; ++j) y.row(i)[j] += static_cast<double>(bias[j]);
}

struct GatedUnit {
  PackedMatrix gate, up;  // (intermediate_size, hidden_size) or a stack of them
  PackedMatrix down;      // (hidden_size, intermediate_size) or a stack of them
  const float *gate_bias = nullptr, *up_bias = nullptr, *down_bias = nullptr;
  Activation activation = Activation::silu;

  std::int64_t scratch_doubles() const {
    return 2 * tile_doubles(gate.desc.rows) + panel_doubles(std::max(gate.desc.cols, down.desc.cols));
  }
  // x (m, hidden_size), y (m, hidden_size)
  void run(const RunContext& c, std::int64_t index, const Tile& x, const Tile& y, Scratch scratch) const {
    const Tile g = scratch.tile(x.m, gate.desc.rows), u = scratch.tile(x.m, gate.desc.rows);
    double* panel = scratch.doubles(panel_doubles(std::max(gate.desc.cols, down.desc.cols)));
    multiply(c, gate, index, x, g, panel);
    multiply(c, up, index, x, u, panel);
    add_bias(gate_bias, g);
    add_bias(up_bias, u);
    for (std::int64_t i = 0; i < x.m; ++i)
      for (std::int64_t j = 0; j < g.width; ++j) g.row(i)[j] = activate(activation, g.row(i)[j]) * u.row(i)[j];
    multiply(c, down, index, g, y, panel);
    add_bias(down_bias, y);
  }
};

}  // namespace dsv31::inline v1::reference
