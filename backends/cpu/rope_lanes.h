// Rotary embedding (Su et al. 2021) and the write of a row into the cache.
// Included only by the files of one instruction set, after lanes.h.
#pragma once

#include "backends/cpu/attention_kernels.h"
#include "backends/simd/lanes.h"
#include "backends/simd/math.h"

namespace dsv31::inline v1::cpu::DSV31_ISA {

using namespace simd::DSV31_ISA;

static void angles(const float* inv_freq, std::int64_t half, float position, float scale, float* out) {
  for (std::int64_t i = 0; i < half; i += 16) {
    const std::int64_t n = half - i < 16 ? half - i : 16;
    V16 sine, cosine;
    sincos(mul(set1(position), load_n(inv_freq + i, n, 0)), sine, cosine);
    store_n(out + i, n, mul(cosine, set1(scale)));
    store_n(out + half + i, n, mul(sine, set1(scale)));
  }
}

// (a, b) -> (a cos - b sin, a sin + b cos)
static void turn(float* x, const float* angles, std::int64_t dim, bool interleaved) {
  const std::int64_t half = dim / 2;
  const float *cosines = angles, *sines = angles + half;
  if (interleaved) {
    for (std::int64_t i = 0; i < half; ++i) {
      const float a = x[2 * i], b = x[2 * i + 1];
      x[2 * i] = fma(a, cosines[i], -(b * sines[i]));
      x[2 * i + 1] = fma(a, sines[i], b * cosines[i]);
    }
    return;
  }
  for (std::int64_t i = 0; i < half; i += 16) {
    const std::int64_t n = half - i < 16 ? half - i : 16;
    const V16 a = load_n(x + i, n, 0), b = load_n(x + half + i, n, 0);
    const V16 c = load_n(cosines + i, n, 0), s = load_n(sines + i, n, 0);
    store_n(x + i, n, fma(a, c, neg(mul(b, s))));
    store_n(x + half + i, n, fma(a, s, mul(b, c)));
  }
}

static void cache(const float* x, std::int64_t n, std::byte* dst, std::int64_t stride, bool half) {
  if (!half) {
    float* to = reinterpret_cast<float*>(dst);
    for (std::int64_t i = 0; i < n; ++i) to[i * stride] = x[i];
    return;
  }
  std::uint16_t* to = reinterpret_cast<std::uint16_t*>(dst);
  for (std::int64_t i = 0; i < n; i += 16) {
    const std::int64_t count = n - i < 16 ? n - i : 16;
    std::uint16_t converted[16];
    store_f16(converted, load_n(x + i, count, 0));
    for (std::int64_t j = 0; j < count; ++j) to[(i + j) * stride] = converted[j];
  }
}

}  // namespace dsv31::inline v1::cpu::DSV31_ISA
