// V16 as one zmm register. Included by lanes.h only; lanes_generic.h says what each operation means.
#pragma once

#include <immintrin.h>

#include <cstdint>

#if defined(__GNUC__) && !defined(__clang__)
// gcc 12 takes its own _mm512_undefined_ps() for a fault.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#define DSV31_LANES [[gnu::always_inline]] inline

namespace dsv31::inline v1::simd::avx512 {

struct V16 {
  __m512 v;
};
struct I16 {
  __m512i v;
};
struct M16 {
  __mmask16 m;
};

DSV31_LANES M16 first_lanes(std::int64_t n) { return {static_cast<__mmask16>(n >= 16 ? 0xffffu : n <= 0 ? 0u : (1u << n) - 1u)}; }
DSV31_LANES V16 set1(float x) { return {_mm512_set1_ps(x)}; }
DSV31_LANES V16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
DSV31_LANES void store(float* p, V16 a) { _mm512_storeu_ps(p, a.v); }
DSV31_LANES V16 load_n(const float* p, std::int64_t n, float fill) {
  return {_mm512_mask_loadu_ps(_mm512_set1_ps(fill), first_lanes(n).m, p)};
}
DSV31_LANES void store_n(float* p, std::int64_t n, V16 a) { _mm512_mask_storeu_ps(p, first_lanes(n).m, a.v); }
DSV31_LANES V16 load_f16(const std::uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
DSV31_LANES void store_f16(std::uint16_t* p, V16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
DSV31_LANES V16 load_bf16(const std::uint16_t* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}

DSV31_LANES void load_e4m3(const std::uint8_t* p, V16& a, V16& b) {
  // Sign-extended and moved up by 7 the bits are s s e e e e m m m: the second sign goes.
  const __m512i moved = _mm512_slli_epi16(_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 7);
  const __m512i half = _mm512_and_si512(moved, _mm512_set1_epi16(static_cast<short>(0xbfff)));
  const __m512i largest = _mm512_set1_epi16(0x3f80);
  const __mmask32 nan = _mm512_cmpeq_epi16_mask(_mm512_and_si512(moved, largest), largest);
  const __m512i value = _mm512_mask_mov_epi16(half, nan, _mm512_set1_epi16(0x7e00));
  a.v = _mm512_cvtph_ps(_mm512_castsi512_si256(value));
  b.v = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(value, 1));
}
DSV31_LANES V16 load_e4m3(const std::uint8_t* p) {
  const __m256i moved = _mm256_slli_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 7);
  const __m256i half = _mm256_and_si256(moved, _mm256_set1_epi16(static_cast<short>(0xbfff)));
  const __m256i largest = _mm256_set1_epi16(0x3f80);
  const __mmask16 nan = _mm256_cmpeq_epi16_mask(_mm256_and_si256(moved, largest), largest);
  return {_mm512_cvtph_ps(_mm256_mask_mov_epi16(half, nan, _mm256_set1_epi16(0x7e00)))};
}

DSV31_LANES V16 add(V16 a, V16 b) { return {_mm512_add_ps(a.v, b.v)}; }
DSV31_LANES V16 sub(V16 a, V16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
DSV31_LANES V16 mul(V16 a, V16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
DSV31_LANES V16 div(V16 a, V16 b) { return {_mm512_div_ps(a.v, b.v)}; }
DSV31_LANES V16 fma(V16 a, V16 b, V16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
DSV31_LANES V16 fnma(V16 a, V16 b, V16 c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
DSV31_LANES V16 max(V16 a, V16 b) { return {_mm512_max_ps(a.v, b.v)}; }
DSV31_LANES V16 min(V16 a, V16 b) { return {_mm512_min_ps(a.v, b.v)}; }
DSV31_LANES V16 sqrt(V16 a) { return {_mm512_sqrt_ps(a.v)}; }
DSV31_LANES V16 round(V16 a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
DSV31_LANES V16 floor(V16 a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)}; }

DSV31_LANES M16 less(V16 a, V16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
DSV31_LANES M16 equal(V16 a, V16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
DSV31_LANES M16 equal(I16 a, I16 b) { return {_mm512_cmpeq_epi32_mask(a.v, b.v)}; }
DSV31_LANES M16 mask_not(M16 m) { return {static_cast<__mmask16>(~m.m)}; }
DSV31_LANES M16 mask_and(M16 a, M16 b) { return {static_cast<__mmask16>(a.m & b.m)}; }
DSV31_LANES M16 mask_or(M16 a, M16 b) { return {static_cast<__mmask16>(a.m | b.m)}; }
DSV31_LANES bool any(M16 m) { return m.m != 0; }
DSV31_LANES std::uint32_t mask_bits(M16 m) { return m.m; }
DSV31_LANES V16 select(M16 m, V16 yes, V16 no) { return {_mm512_mask_blend_ps(m.m, no.v, yes.v)}; }

DSV31_LANES I16 set1i(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
DSV31_LANES I16 loadi(const std::int32_t* p) { return {_mm512_loadu_si512(p)}; }
DSV31_LANES void storei(std::int32_t* p, I16 a) { _mm512_storeu_si512(p, a.v); }
DSV31_LANES I16 load_i8(const std::int8_t* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
DSV31_LANES I16 load_u8(const std::uint8_t* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
DSV31_LANES void store_i8(std::int8_t* p, I16 a) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(a.v)); }
DSV31_LANES I16 add(I16 a, I16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
DSV31_LANES I16 sub(I16 a, I16 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
DSV31_LANES I16 max(I16 a, I16 b) { return {_mm512_max_epi32(a.v, b.v)}; }
DSV31_LANES I16 bit_and(I16 a, I16 b) { return {_mm512_and_si512(a.v, b.v)}; }
DSV31_LANES I16 bit_or(I16 a, I16 b) { return {_mm512_or_si512(a.v, b.v)}; }
DSV31_LANES I16 bit_xor(I16 a, I16 b) { return {_mm512_xor_si512(a.v, b.v)}; }
template <int N>
DSV31_LANES I16 shl(I16 a) {
  return {_mm512_slli_epi32(a.v, N)};
}
template <int N>
DSV31_LANES I16 shr(I16 a) {
  return {_mm512_srai_epi32(a.v, N)};
}
template <int N>
DSV31_LANES I16 shr_logical(I16 a) {
  return {_mm512_srli_epi32(a.v, N)};
}
DSV31_LANES V16 to_float(I16 a) { return {_mm512_cvtepi32_ps(a.v)}; }
DSV31_LANES I16 to_int(V16 a) { return {_mm512_cvtps_epi32(a.v)}; }
DSV31_LANES I16 as_int(V16 a) { return {_mm512_castps_si512(a.v)}; }
DSV31_LANES V16 as_float(I16 a) { return {_mm512_castsi512_ps(a.v)}; }

DSV31_LANES float sum(V16 a) {
  const __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  const __m128 d = _mm_add_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_shuffle_ps(d, d, 1)));
}
DSV31_LANES float max_lane(V16 a) {
  const __m256 b = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  const __m128 d = _mm_max_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_max_ss(d, _mm_shuffle_ps(d, d, 1)));
}
DSV31_LANES std::int32_t sum(I16 a) { return _mm512_reduce_add_epi32(a.v); }
DSV31_LANES std::int32_t max_lane(I16 a) { return _mm512_reduce_max_epi32(a.v); }
DSV31_LANES float first(V16 a) { return _mm512_cvtss_f32(a.v); }

}  // namespace dsv31::inline v1::simd::avx512
