// The row kernels of the ops: everything that is not a matrix product. One table an instruction set, all with the same bits.
//
// Reductions use sixteen lanes (element i goes to lane i mod 16, tails are padded with the neutral element) and the fixed tree of
// simd/lanes.h. Rows may have any length and any alignment; nothing past their end is read or written.
#pragma once

#include <cstdint>

#include "backends/cpu/matmul.h"

namespace dsv31::inline v1::cpu {

struct RowKernels {
  // y = weight * (x * (1 / sqrt(mean(x^2) + eps))); x, weight, y (n). y may be x.
  void (*rms_norm)(const float* x, const float* weight, float eps, std::int64_t n, float* y);
  // For each kGroup (the last may be shorter): scale = absmax / 127, q = round(x * (127 / absmax)).
  // A group under 2^-120 is zero; one with an infinity or a NaN has q = 0 and that as its scale, so that its products are NaN.
  // x (n), q (padded), scale and side (ceil(n / kGroup)): side = scale * float(sum of q), sums (padded / 16): sums of 16
  // consecutive q. q and sums are zero from n on.
  void (*quantize)(const float* x, std::int64_t n, std::int64_t padded, std::int8_t* q, float* scale, float* side,
                   std::int16_t* sums);
  // y = x - q * scale: what quantize left behind. x, q, y (n), scale (ceil(n / kGroup)); y may be x.
  void (*remainder)(const float* x, const std::int8_t* q, const float* scale, std::int64_t n, float* y);
  // y = activation(gate + gate_bias) * (up + up_bias); all (n), biases may be null, y may be gate or up.
  void (*gated)(Activation activation, const float* gate, const float* gate_bias, const float* up, const float* up_bias,
                std::int64_t n, float* y);
  void (*add)(const float* a, const float* b, std::int64_t n, float* y);  // y = a + b; y may be a or b
  void (*add_scaled)(float w, const float* x, std::int64_t n, float* y);  // y = fma(w, x, y)
  void (*scale)(float s, const float* x, std::int64_t n, float* y);       // y = s * x
  void (*soft_cap)(float cap, std::int64_t n, float* x);                  // x = cap * tanh(x / cap)
  void (*softmax)(std::int64_t n, float* x);                              // x = exp(x - max(x)) / sum(exp(x - max(x)))
  void (*sigmoid)(std::int64_t n, float* x);
};

const RowKernels& row_kernels(Isa isa);

}  // namespace dsv31::inline v1::cpu
