// AVX2: vpmaddubsw adds two products into an int16; as many of them as cannot overflow are added before one vpmaddwd takes them
// to int32. The empty asm makes an operand new, so that no product is computed once for all.
#include <immintrin.h>

#include "backends/simd/mac_loops.h"

namespace dsv31::inline v1::simd::avx2 {
namespace {

constexpr int kChains = 4;  // independent sums; with their int16 halves and the operands they fill the 16 registers

template <int kUnits>
void int16_sums(std::int64_t turns) {
  __m256i w = _mm256_set1_epi8(3), acc[kChains], s[kChains];
  const __m256i x = _mm256_set1_epi8(2), scale = _mm256_set1_epi16(1);
  for (__m256i& a : acc) a = _mm256_setzero_si256();
  for (std::int64_t t = 0; t < turns; ++t) {
#pragma GCC unroll 8
    for (int u = 0; u < kUnits; ++u) {
#pragma GCC unroll 4
      for (int c = 0; c < kChains; ++c) {
        asm volatile("" : "+x"(w));
        const __m256i product = _mm256_maddubs_epi16(w, x);
        s[c] = u == 0 ? product : _mm256_add_epi16(s[c], product);
        asm volatile("" : "+x"(s[c]));
      }
    }
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) {
      acc[c] = _mm256_add_epi32(acc[c], _mm256_madd_epi16(s[c], scale));
      asm volatile("" : "+x"(acc[c]));
    }
  }
}

constexpr int kFloatChains = 12;  // latency 4, two a cycle

void float_fma(std::int64_t turns) {
  __m256 w = _mm256_set1_ps(0.5f), acc[kFloatChains];
  const __m256 x = _mm256_set1_ps(0.25f);
  for (__m256& a : acc) a = _mm256_setzero_ps();
  for (std::int64_t t = 0; t < turns; ++t) {
#pragma GCC unroll 12
    for (int c = 0; c < kFloatChains; ++c) {
      acc[c] = _mm256_fmadd_ps(w, x, acc[c]);
      asm volatile("" : "+x"(acc[c]));
    }
  }
}

constexpr DType kU4[] = {DType::q4_0, DType::q4_1, DType::q4_k};
constexpr DType kU5[] = {DType::q5_0, DType::q5_1, DType::q5_k, DType::mxfp4, DType::q2_k, DType::q3_k};
constexpr DType kU6[] = {DType::q6_k};
constexpr DType kS8[] = {DType::q8_0, DType::iq4_nl, DType::iq4_xs};
constexpr DType kFloat[] = {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3};

constexpr MacLoop kLoops[] = {
    {"u4*s8", kU4, 8 * 32 * kChains, int16_sums<8>},  {"u5*s8", kU5, 4 * 32 * kChains, int16_sums<4>},
    {"u6*s8", kU6, 2 * 32 * kChains, int16_sums<2>},  {"s8*s8", kS8, 32 * kChains, int16_sums<1>},
    {"f32*f32", kFloat, 8 * kFloatChains, float_fma},
};

}  // namespace

std::span<const MacLoop> mac_loops() { return kLoops; }

}  // namespace dsv31::inline v1::simd::avx2
