// Cache blocks as float32 operands of the products: K transposed (k_width, 64), V (64, v_width). Latents lie as (64, latent) and
// have to be turned by 16 x 16 tiles in registers; that costs about a tenth of what a tile of 48 query rows then spends on them.
// Included only by the files of one instruction set, after lanes.h.
#pragma once

#include "backends/cpu/attention_product.h"

namespace dsv31::inline v1::cpu::DSV31_ISA {

#if defined(DSV31_ISA_AVX512)

DSV31_LANES void transpose(const V16 (&in)[16], float* dst, std::int64_t stride) {
  __m512 r[16], t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    r[i] = _mm512_unpacklo_ps(in[i].v, in[i + 1].v);
    r[i + 1] = _mm512_unpackhi_ps(in[i].v, in[i + 1].v);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {  // t[i + c]: column c of each 4 x 4 block of rows i .. i + 3
    t[i] = _mm512_shuffle_ps(r[i], r[i + 2], 0x44);
    t[i + 1] = _mm512_shuffle_ps(r[i], r[i + 2], 0xee);
    t[i + 2] = _mm512_shuffle_ps(r[i + 1], r[i + 3], 0x44);
    t[i + 3] = _mm512_shuffle_ps(r[i + 1], r[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512 even_low = _mm512_shuffle_f32x4(t[c], t[c + 4], 0x88), odd_low = _mm512_shuffle_f32x4(t[c], t[c + 4], 0xdd);
    const __m512 even_high = _mm512_shuffle_f32x4(t[c + 8], t[c + 12], 0x88),
                 odd_high = _mm512_shuffle_f32x4(t[c + 8], t[c + 12], 0xdd);
    _mm512_storeu_ps(dst + c * stride, _mm512_shuffle_f32x4(even_low, even_high, 0x88));
    _mm512_storeu_ps(dst + (c + 4) * stride, _mm512_shuffle_f32x4(odd_low, odd_high, 0x88));
    _mm512_storeu_ps(dst + (c + 8) * stride, _mm512_shuffle_f32x4(even_low, even_high, 0xdd));
    _mm512_storeu_ps(dst + (c + 12) * stride, _mm512_shuffle_f32x4(odd_low, odd_high, 0xdd));
  }
}

#elif defined(DSV31_ISA_AVX2)

DSV31_LANES void transpose8(const __m256 (&in)[8], float* dst, std::int64_t stride) {
  __m256 r[8], t[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    r[i] = _mm256_unpacklo_ps(in[i], in[i + 1]);
    r[i + 1] = _mm256_unpackhi_ps(in[i], in[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    t[i] = _mm256_shuffle_ps(r[i], r[i + 2], 0x44);
    t[i + 1] = _mm256_shuffle_ps(r[i], r[i + 2], 0xee);
    t[i + 2] = _mm256_shuffle_ps(r[i + 1], r[i + 3], 0x44);
    t[i + 3] = _mm256_shuffle_ps(r[i + 1], r[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    _mm256_storeu_ps(dst + c * stride, _mm256_permute2f128_ps(t[c], t[c + 4], 0x20));
    _mm256_storeu_ps(dst + (c + 4) * stride, _mm256_permute2f128_ps(t[c], t[c + 4], 0x31));
  }
}

DSV31_LANES void transpose(const V16 (&in)[16], float* dst, std::int64_t stride) {
#pragma GCC unroll 2
  for (int half = 0; half < 16; half += 8) {
    __m256 low[8], high[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      low[i] = in[half + i].lo;
      high[i] = in[half + i].hi;
    }
    transpose8(low, dst + half, stride);
    transpose8(high, dst + 8 * stride + half, stride);
  }
}

#else

DSV31_LANES void transpose(const V16 (&in)[16], float* dst, std::int64_t stride) {
  for (int i = 0; i < 16; ++i)
    for (int c = 0; c < 16; ++c) dst[c * stride + i] = in[i].v[c];
}

#endif

// The first n <= 16 elements at p, zeros behind them; nothing past them is read.
DSV31_LANES V16 load_some(const float* p, std::int64_t n) { return load_n(p, n, 0); }
DSV31_LANES V16 load_some(const std::uint16_t* p, std::int64_t n) {
  if (n >= 16) return load_f16(p);
  std::uint16_t padded[16] = {};
  for (std::int64_t i = 0; i < n; ++i) padded[i] = p[i];
  return load_f16(padded);
}

// dst[d][t] = src[t][d]: src (64, stride), dst (width, 64)
template <class T>
static void transpose_block(const T* src, std::int64_t stride, std::int64_t width, float* dst) {
  std::int64_t d = 0;
  for (; d + 16 <= width; d += 16)
    for (std::int64_t t = 0; t < kBlock; t += 16) {
      V16 rows[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) rows[i] = load_b(src + (t + i) * stride + d);
      transpose(rows, dst + d * kBlock + t, kBlock);
    }
  for (; d < width; ++d)
    for (std::int64_t t = 0; t < kBlock; ++t) dst[d * kBlock + t] = first(load_some(src + t * stride + d, 1));
}

// dst[t][d] = src[t][d], t in [begin, end): src (64, stride), dst (64, ld) with ld a multiple of 16, zeros past width
template <class T>
static void widen_rows(const T* src, std::int64_t stride, std::int64_t width, std::int64_t begin, std::int64_t end, float* dst,
                       std::int64_t ld) {
  for (std::int64_t t = begin; t < end; ++t) {
    std::int64_t d = 0;
    for (; d + 16 <= width; d += 16) store(dst + t * ld + d, load_b(src + t * stride + d));
    if (d < width) store(dst + t * ld + d, load_some(src + t * stride + d, width - d));
  }
}

}  // namespace dsv31::inline v1::cpu::DSV31_ISA
