// V16 as two ymm registers: lanes 0-7 and 8-15. Included by lanes.h only; lanes_generic.h says what each operation means.
#pragma once

#include <immintrin.h>

#include <cstdint>

#define DSV31_LANES [[gnu::always_inline]] inline

namespace dsv31::inline v1::simd::avx2 {

struct V16 {
  __m256 lo, hi;
};
struct I16 {
  __m256i lo, hi;
};
struct M16 {
  __m256 lo, hi;
};  // all bits of a lane

DSV31_LANES V16 set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
DSV31_LANES I16 set1i(std::int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
DSV31_LANES M16 first_lanes(std::int64_t n) {
  const __m256i count = _mm256_set1_epi32(n >= 16 ? 16 : n <= 0 ? 0 : static_cast<int>(n));
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(count, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))),
          _mm256_castsi256_ps(_mm256_cmpgt_epi32(count, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)))};
}
DSV31_LANES V16 select(M16 m, V16 yes, V16 no) {
  return {_mm256_blendv_ps(no.lo, yes.lo, m.lo), _mm256_blendv_ps(no.hi, yes.hi, m.hi)};
}
DSV31_LANES V16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
DSV31_LANES void store(float* p, V16 a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
DSV31_LANES V16 load_n(const float* p, std::int64_t n, float fill) {
  const M16 m = first_lanes(n);
  const __m256i lo = _mm256_castps_si256(m.lo), hi = _mm256_castps_si256(m.hi);
  const V16 part = {_mm256_maskload_ps(p, lo), n > 8 ? _mm256_maskload_ps(p + 8, hi) : _mm256_setzero_ps()};
  return select(m, part, set1(fill));
}
DSV31_LANES void store_n(float* p, std::int64_t n, V16 a) {
  const M16 m = first_lanes(n);
  _mm256_maskstore_ps(p, _mm256_castps_si256(m.lo), a.lo);
  if (n > 8) _mm256_maskstore_ps(p + 8, _mm256_castps_si256(m.hi), a.hi);
}
DSV31_LANES V16 load_f16(const std::uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
DSV31_LANES void store_f16(std::uint16_t* p, V16 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
DSV31_LANES __m256 widen_bf16(const std::uint16_t* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
DSV31_LANES V16 load_bf16(const std::uint16_t* p) { return {widen_bf16(p), widen_bf16(p + 8)}; }

DSV31_LANES V16 load_e4m3(const std::uint8_t* p) {
  // Sign-extended and moved up by 7 the bits are s s e e e e m m m: the second sign goes.
  const __m256i moved = _mm256_slli_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 7);
  const __m256i largest = _mm256_set1_epi16(0x3f80);
  const __m256i nan = _mm256_cmpeq_epi16(_mm256_and_si256(moved, largest), largest);
  const __m256i kept = _mm256_and_si256(moved, _mm256_set1_epi16(static_cast<short>(0xbfff)));
  const __m256i half = _mm256_or_si256(kept, _mm256_slli_epi16(nan, 14));  // an exponent of all ones, a mantissa that is not zero
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(half)), _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))};
}
DSV31_LANES void load_e4m3(const std::uint8_t* p, V16& a, V16& b) {
  a = load_e4m3(p);
  b = load_e4m3(p + 16);
}

DSV31_LANES V16 add(V16 a, V16 b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
DSV31_LANES V16 sub(V16 a, V16 b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
DSV31_LANES V16 mul(V16 a, V16 b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
DSV31_LANES V16 div(V16 a, V16 b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
DSV31_LANES V16 fma(V16 a, V16 b, V16 c) { return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)}; }
DSV31_LANES V16 fnma(V16 a, V16 b, V16 c) { return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)}; }
DSV31_LANES V16 max(V16 a, V16 b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
DSV31_LANES V16 min(V16 a, V16 b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
DSV31_LANES V16 sqrt(V16 a) { return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)}; }
DSV31_LANES V16 round(V16 a) {
  constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.lo, kMode), _mm256_round_ps(a.hi, kMode)};
}
DSV31_LANES V16 floor(V16 a) {
  constexpr int kMode = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.lo, kMode), _mm256_round_ps(a.hi, kMode)};
}

DSV31_LANES M16 less(V16 a, V16 b) { return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)}; }
DSV31_LANES M16 equal(V16 a, V16 b) { return {_mm256_cmp_ps(a.lo, b.lo, _CMP_EQ_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_EQ_OQ)}; }
DSV31_LANES M16 equal(I16 a, I16 b) {
  return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(a.lo, b.lo)), _mm256_castsi256_ps(_mm256_cmpeq_epi32(a.hi, b.hi))};
}
DSV31_LANES M16 mask_not(M16 m) {
  const __m256 ones = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
  return {_mm256_xor_ps(m.lo, ones), _mm256_xor_ps(m.hi, ones)};
}
DSV31_LANES M16 mask_and(M16 a, M16 b) { return {_mm256_and_ps(a.lo, b.lo), _mm256_and_ps(a.hi, b.hi)}; }
DSV31_LANES M16 mask_or(M16 a, M16 b) { return {_mm256_or_ps(a.lo, b.lo), _mm256_or_ps(a.hi, b.hi)}; }
DSV31_LANES bool any(M16 m) { return _mm256_movemask_ps(_mm256_or_ps(m.lo, m.hi)) != 0; }
DSV31_LANES std::uint32_t mask_bits(M16 m) {
  return static_cast<std::uint32_t>(_mm256_movemask_ps(m.lo)) | static_cast<std::uint32_t>(_mm256_movemask_ps(m.hi)) << 8;
}

DSV31_LANES I16 loadi(const std::int32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
}
DSV31_LANES void storei(std::int32_t* p, I16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), a.hi);
}
DSV31_LANES I16 load_i8(const std::int8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))};
}
DSV31_LANES I16 load_u8(const std::uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
}
DSV31_LANES void store_i8(std::int8_t* p, I16 a) {
  const __m128i lo = _mm_packs_epi32(_mm256_castsi256_si128(a.lo), _mm256_extracti128_si256(a.lo, 1));
  const __m128i hi = _mm_packs_epi32(_mm256_castsi256_si128(a.hi), _mm256_extracti128_si256(a.hi, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(lo, hi));
}
DSV31_LANES I16 add(I16 a, I16 b) { return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)}; }
DSV31_LANES I16 sub(I16 a, I16 b) { return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)}; }
DSV31_LANES I16 max(I16 a, I16 b) { return {_mm256_max_epi32(a.lo, b.lo), _mm256_max_epi32(a.hi, b.hi)}; }
DSV31_LANES I16 bit_and(I16 a, I16 b) { return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)}; }
DSV31_LANES I16 bit_or(I16 a, I16 b) { return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)}; }
DSV31_LANES I16 bit_xor(I16 a, I16 b) { return {_mm256_xor_si256(a.lo, b.lo), _mm256_xor_si256(a.hi, b.hi)}; }
template <int N>
DSV31_LANES I16 shl(I16 a) {
  return {_mm256_slli_epi32(a.lo, N), _mm256_slli_epi32(a.hi, N)};
}
template <int N>
DSV31_LANES I16 shr(I16 a) {
  return {_mm256_srai_epi32(a.lo, N), _mm256_srai_epi32(a.hi, N)};
}
template <int N>
DSV31_LANES I16 shr_logical(I16 a) {
  return {_mm256_srli_epi32(a.lo, N), _mm256_srli_epi32(a.hi, N)};
}
DSV31_LANES V16 to_float(I16 a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
DSV31_LANES I16 to_int(V16 a) { return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)}; }
DSV31_LANES I16 as_int(V16 a) { return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)}; }
DSV31_LANES V16 as_float(I16 a) { return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)}; }

DSV31_LANES float sum(V16 a) {
  const __m256 b = _mm256_add_ps(a.lo, a.hi);
  const __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  const __m128 d = _mm_add_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_shuffle_ps(d, d, 1)));
}
DSV31_LANES float max_lane(V16 a) {
  const __m256 b = _mm256_max_ps(a.lo, a.hi);
  const __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  const __m128 d = _mm_max_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_max_ss(d, _mm_shuffle_ps(d, d, 1)));
}
DSV31_LANES std::int32_t sum(I16 a) {
  const __m256i b = _mm256_add_epi32(a.lo, a.hi);
  const __m128i c = _mm_add_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1));
  const __m128i d = _mm_add_epi32(c, _mm_shuffle_epi32(c, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(d, _mm_shuffle_epi32(d, 0xb1)));
}
DSV31_LANES std::int32_t max_lane(I16 a) {
  const __m256i b = _mm256_max_epi32(a.lo, a.hi);
  const __m128i c = _mm_max_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1));
  const __m128i d = _mm_max_epi32(c, _mm_shuffle_epi32(c, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(d, _mm_shuffle_epi32(d, 0xb1)));
}
DSV31_LANES float first(V16 a) { return _mm256_cvtss_f32(a.lo); }

}  // namespace dsv31::inline v1::simd::avx2
