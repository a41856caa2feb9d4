// The byte operations of the int8 kernels on AVX2: a unit of 16 rows x 4 k is two ymm, rows 0-7 and 8-15.
//
// vpmaddubsw adds two products into an int16 and saturates, so unsigned codes of b bits may be summed only over so many units
// that 2 * units * (2^b - 1) * 127 stays below 32768; Block::kChunk of each format is that number. Signed bytes go as |w| *
// (sign(w) x), where 2 * 128 * 127 just fits and one unit is the limit.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "backends/simd/lanes.h"

namespace dsv31::inline v1::quantized::avx2 {

using namespace simd::avx2;

inline constexpr bool kSignedUnits = true;
inline constexpr bool kInt16Sums = true;
inline constexpr int kPanelStripsAtOnce = 1;
inline constexpr std::int64_t kBlockColumns = 32;
inline constexpr int kPanelColumns = 4;

struct Bytes {
  __m256i lo, hi;
};
struct Sum {  // int16: two a row
  __m256i lo, hi;
};

DSV31_LANES Bytes load_unit(const std::byte* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
}
DSV31_LANES void store_unit(std::byte* p, Bytes x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), x.hi);
}
DSV31_LANES void prefetch(const std::byte* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0); }
DSV31_LANES Bytes quad(const std::int8_t* q) {
  std::int32_t four;
  __builtin_memcpy(&four, q, 4);
  const __m256i x = _mm256_set1_epi32(four);
  return {x, x};
}

template <int kFrom, int kMask>
DSV31_LANES Bytes field(Bytes x) {
  const __m256i mask = _mm256_set1_epi8(kMask);
  if constexpr (kFrom == 0) return {_mm256_and_si256(x.lo, mask), _mm256_and_si256(x.hi, mask)};
  return {_mm256_and_si256(_mm256_srli_epi16(x.lo, kFrom), mask), _mm256_and_si256(_mm256_srli_epi16(x.hi, kFrom), mask)};
}
template <int kFrom, int kTo>
DSV31_LANES __m256i moved(__m256i x) {
  if constexpr (kFrom > kTo) return _mm256_srli_epi16(x, kFrom - kTo);
  if constexpr (kFrom < kTo) return _mm256_slli_epi16(x, kTo - kFrom);
  return x;
}
template <int kFrom, int kTo, int kMask>
DSV31_LANES Bytes join(Bytes low, Bytes plane) {
  const __m256i mask = _mm256_set1_epi8(static_cast<char>(kMask << kTo));
  return {_mm256_or_si256(low.lo, _mm256_and_si256(moved<kFrom, kTo>(plane.lo), mask)),
          _mm256_or_si256(low.hi, _mm256_and_si256(moved<kFrom, kTo>(plane.hi), mask))};
}
DSV31_LANES Bytes lookup(const std::uint8_t* table, Bytes index) {
  const __m256i t = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  return {_mm256_shuffle_epi8(t, index.lo), _mm256_shuffle_epi8(t, index.hi)};
}
DSV31_LANES Bytes add_128(Bytes x) {
  const __m256i top = _mm256_set1_epi8(-128);
  return {_mm256_xor_si256(x.lo, top), _mm256_xor_si256(x.hi, top)};
}

DSV31_LANES I16 zeroi() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
DSV31_LANES Sum sum_from(I16) { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
template <bool kSigned>
DSV31_LANES __m256i products(__m256i w, __m256i x) {
  if constexpr (kSigned) return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
  return _mm256_maddubs_epi16(w, x);
}
// The empty asm keeps the compiler from reordering the additions, which would keep dozens of products alive and spill them.
template <bool kSigned>
DSV31_LANES Sum step(Sum s, Bytes w, Bytes x) {
  s = {_mm256_add_epi16(s.lo, products<kSigned>(w.lo, x.lo)), _mm256_add_epi16(s.hi, products<kSigned>(w.hi, x.hi))};
  asm("" : "+x"(s.lo), "+x"(s.hi));
  return s;
}
// A signed unit in a panel: |w|, and all ones where w < 0. |w| * ~x = |w| * (-x - 1), so with the sum of |w| over w < 0 as the
// start of a dot, an exclusive or takes the place of vpsignb, which competes with the products for its port.
struct Folded {
  Bytes magnitude, negative;
};
template <bool>
DSV31_LANES Sum step(Sum s, Folded w, Bytes x) {
  const __m256i lo = _mm256_xor_si256(x.lo, w.negative.lo), hi = _mm256_xor_si256(x.hi, w.negative.hi);
  return step<false>(s, w.magnitude, Bytes{lo, hi});
}
template <bool kSigned>
struct Stored {
  static constexpr int kBytes = 64;
  DSV31_LANES static Bytes load(const std::byte* p) { return load_unit(p); }
  DSV31_LANES static void store(std::byte* p, Bytes w) { store_unit(p, w); }
};
template <>
struct Stored<true> {
  static constexpr int kBytes = 128;
  DSV31_LANES static Folded load(const std::byte* p) { return {load_unit(p), load_unit(p + 64)}; }
  DSV31_LANES static Folded fold(Bytes w) {
    const __m256i zero = _mm256_setzero_si256();
    return {{_mm256_abs_epi8(w.lo), _mm256_abs_epi8(w.hi)}, {_mm256_cmpgt_epi8(zero, w.lo), _mm256_cmpgt_epi8(zero, w.hi)}};
  }
  DSV31_LANES static void store(std::byte* p, Bytes w) {
    const Folded f = fold(w);
    store_unit(p, f.magnitude);
    store_unit(p + 64, f.negative);
  }
  DSV31_LANES static Sum start(Bytes w) {  // sum of |w| over w < 0
    const Folded f = fold(w);
    const __m256i ones = _mm256_set1_epi8(1);
    return {_mm256_maddubs_epi16(_mm256_and_si256(f.magnitude.lo, f.negative.lo), ones),
            _mm256_maddubs_epi16(_mm256_and_si256(f.magnitude.hi, f.negative.hi), ones)};
  }
};
DSV31_LANES Bytes times(Bytes w, int, I16, int) { return w; }  // no flat panels: int16 sums would be too short
DSV31_LANES I16 add_scaled(I16 acc, Sum s, I16 mult) {
  return {_mm256_add_epi32(acc.lo, _mm256_madd_epi16(s.lo, mult.lo)), _mm256_add_epi32(acc.hi, _mm256_madd_epi16(s.hi, mult.hi))};
}
DSV31_LANES I16 sum_into(I16 acc, Sum s) {
  const __m256i ones = _mm256_set1_epi16(1);
  return add_scaled(acc, s, {ones, ones});
}

// Pairs of int16 a row: (byte a, byte b). order: where the four bytes of a row come from in its dword, 0x80 for zero.
DSV31_LANES I16 reorder(I16 x, std::uint32_t order) {
  const __m256i row = _mm256_broadcastsi128_si256(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0C0C0C0C));
  const __m256i from = _mm256_add_epi32(_mm256_set1_epi32(static_cast<std::int32_t>(order)), row);
  return {_mm256_shuffle_epi8(x.lo, from), _mm256_shuffle_epi8(x.hi, from)};
}
template <int kA, int kB>
DSV31_LANES I16 pair_u8(I16 x) {
  return reorder(x, 0x80008000u | kA | kB << 16);
}
DSV31_LANES I16 pair_less(I16 pair, int v) {
  const __m256i less = _mm256_set1_epi16(static_cast<short>(v));
  return {_mm256_sub_epi16(pair.lo, less), _mm256_sub_epi16(pair.hi, less)};
}
DSV31_LANES I16 add_pair(I16 acc, I16 pair, const std::int16_t* sums) {
  std::int32_t two;
  __builtin_memcpy(&two, sums, 4);
  const __m256i x = _mm256_set1_epi32(two);
  return {_mm256_add_epi32(acc.lo, _mm256_madd_epi16(pair.lo, x)), _mm256_add_epi32(acc.hi, _mm256_madd_epi16(pair.hi, x))};
}

// A multiplier is the scale twice, for both int16 sums of a row.
template <int kByte>
DSV31_LANES I16 mult_u8(I16 x) {
  return pair_u8<kByte, kByte>(x);
}
DSV31_LANES I16 mult_less(I16 mult, int v) { return pair_less(mult, v); }

DSV31_LANES I16 load_u16(const std::byte* p) {
  return {_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16)))};
}

}  // namespace dsv31::inline v1::quantized::avx2
