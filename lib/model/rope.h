// Rotary frequencies under long-context scaling, and what the scaling does to attention.
//
// The reference computes them in float32 step by step; so do these functions, because an angle is position times frequency and at
// position 100,000 the last bit of a frequency is a hundredth of a radian.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/model/config.h"

namespace dsv31::inline v1::model {

// inv_freq (dim / 2): theta^(-2i/dim), stretched as rope_type says.
std::vector<float> inv_freq(const RopeParameters& rope, std::int64_t dim);
// Factor of cos and sin: 1 unless rope_type is yarn.
double attention_factor(const RopeParameters& rope);
// 0.1 * mscale * ln(factor) + 1, or 1 for factor <= 1 (YaRN paper, equation 22 as DeepSeek generalised it).
double yarn_mscale(double factor, double mscale);
// DeepSeek's softmax scale: qk_head_dim^-0.5 * yarn_mscale(factor, mscale_all_dim)^2 under yarn.
double mla_scale(const RopeParameters& rope, std::int64_t qk_head_dim);

}  // namespace dsv31::inline v1::model
