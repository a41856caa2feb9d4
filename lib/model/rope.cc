// Sources: YaRN (arXiv 2309.00071, section 3), Llama 3.1's frequency-dependent scaling, and their code in transformers
// (modeling_rope_utils.py), whose order of float32 roundings is kept.
#include "lib/model/rope.h"

#include <algorithm>
#include <cmath>

namespace dsv31::inline v1::model {
namespace {

constexpr double kPi = 3.14159265358979323846;

// The dimension whose wavelength makes `rotations` turns over the original context.
double correction_dim(const RopeParameters& rope, double dim, double rotations) {
  return dim * std::log(rope.original_max_position_embeddings / (rotations * 2 * kPi)) / (2 * std::log(rope.rope_theta));
}

// Dimensions below low turn often and stay; those above high are interpolated; a ramp lies between.
void stretch_yarn(const RopeParameters& rope, std::int64_t dim, std::vector<float>& period) {
  double low = correction_dim(rope, static_cast<double>(dim), rope.beta_fast);
  double high = correction_dim(rope, static_cast<double>(dim), rope.beta_slow);
  if (rope.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dim - 1));
  if (low == high) high += 0.001;
  const float factor = static_cast<float>(rope.factor);
  for (std::size_t i = 0; i < period.size(); ++i) {
    const float ramp = std::clamp((static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0f, 1.0f);
    const float keep = 1.0f - ramp;
    period[i] = (1.0f / (factor * period[i])) * (1.0f - keep) + (1.0f / period[i]) * keep;
  }
}

// Wavelengths that the original context holds high_freq_factor times stay, those it holds less than low_freq_factor times are
// divided by factor, and those between are blended.
void stretch_llama3(const RopeParameters& rope, std::vector<float>& freq) {
  const double context = rope.original_max_position_embeddings;
  for (float& f : freq) {
    const double wavelength = 2 * kPi / static_cast<double>(f);
    if (wavelength < context / rope.high_freq_factor) continue;
    if (wavelength > context / rope.low_freq_factor) {
      f = f / static_cast<float>(rope.factor);
      continue;
    }
    const float smooth =
        static_cast<float>((context / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor));
    f = (1.0f - smooth) * f / static_cast<float>(rope.factor) + smooth * f;
  }
}

}  // namespace

std::vector<float> inv_freq(const RopeParameters& rope, std::int64_t dim) {
  std::vector<float> f(static_cast<std::size_t>(dim / 2));
  for (std::size_t i = 0; i < f.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    f[i] = static_cast<float>(std::pow(static_cast<double>(static_cast<float>(rope.rope_theta)), static_cast<double>(exponent)));
  }
  if (rope.rope_type == RopeType::yarn) {
    stretch_yarn(rope, dim, f);
    return f;
  }
  for (float& x : f) x = 1.0f / x;
  if (rope.rope_type == RopeType::linear)
    for (float& x : f) x /= static_cast<float>(rope.factor);
  if (rope.rope_type == RopeType::llama3) stretch_llama3(rope, f);
  return f;
}

double yarn_mscale(double factor, double mscale) { return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0; }

double attention_factor(const RopeParameters& rope) {
  if (rope.rope_type != RopeType::yarn) return 1;
  if (rope.attention_factor != 0) return rope.attention_factor;
  if (rope.mscale != 0 && rope.mscale_all_dim != 0)
    return yarn_mscale(rope.factor, rope.mscale) / yarn_mscale(rope.factor, rope.mscale_all_dim);
  return yarn_mscale(rope.factor, 1);
}

double mla_scale(const RopeParameters& rope, std::int64_t qk_head_dim) {
  const double scale = 1 / std::sqrt(static_cast<double>(qk_head_dim));
  if (rope.rope_type != RopeType::yarn || rope.mscale_all_dim == 0) return scale;
  const double m = yarn_mscale(rope.factor, rope.mscale_all_dim);
  return scale * m * m;
}

}  // namespace dsv31::inline v1::model
