// AVX-512: vpdpbusd multiplies 64 pairs of bytes and adds four products into each int32.
#include <immintrin.h>

#include "backends/simd/mac_loops.h"

namespace dsv31::inline v1::simd::avx512 {
namespace {

constexpr int kChains = 12;  // latency 4 to 5, two a cycle at most

void byte_dots(std::int64_t turns) {
  const __m512i w = _mm512_set1_epi8(3), x = _mm512_set1_epi8(2);
  __m512i acc[kChains];
  for (__m512i& a : acc) a = _mm512_setzero_si512();
  for (std::int64_t t = 0; t < turns; ++t) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) {
      acc[c] = _mm512_dpbusd_epi32(acc[c], w, x);
      asm volatile("" : "+v"(acc[c]));
    }
  }
}

void float_fma(std::int64_t turns) {
  const __m512 w = _mm512_set1_ps(0.5f), x = _mm512_set1_ps(0.25f);
  __m512 acc[kChains];
  for (__m512& a : acc) a = _mm512_setzero_ps();
  for (std::int64_t t = 0; t < turns; ++t) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) {
      acc[c] = _mm512_fmadd_ps(w, x, acc[c]);
      asm volatile("" : "+v"(acc[c]));
    }
  }
}

constexpr DType kBytes[] = {DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1,  DType::q8_0,   DType::q2_k,  DType::q3_k,
                            DType::q4_k, DType::q5_k, DType::q6_k, DType::mxfp4, DType::iq4_nl, DType::iq4_xs};
constexpr DType kFloat[] = {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3};

constexpr MacLoop kLoops[] = {{"u8*s8", kBytes, 64 * kChains, byte_dots}, {"f32*f32", kFloat, 16 * kChains, float_fma}};

}  // namespace

std::span<const MacLoop> mac_loops() { return kLoops; }

}  // namespace dsv31::inline v1::simd::avx512
