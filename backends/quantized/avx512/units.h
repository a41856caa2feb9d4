// The byte operations of the int8 kernels on AVX-512 with VNNI: a unit of 16 rows x 4 k is one zmm, a lane is a row.
// vpdpbusd wants unsigned weights, so signed codes are stored to it with 128 added, which the sums of the activations take off
// again.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "backends/simd/lanes.h"

namespace dsv31::inline v1::quantized::avx512 {

using namespace simd::avx512;

inline constexpr bool kSignedUnits = false;   // dot products take u8 weights only
inline constexpr bool kInt16Sums = false;     // sums of products are int32, no chunk limit
inline constexpr int kPanelStripsAtOnce = 2;  // strips that share a broadcast of activations
inline constexpr std::int64_t kBlockColumns = std::int64_t{1} << 32;
inline constexpr int kPanelColumns = 8;

struct Bytes {
  __m512i v;
};
using Sum = I16;  // of products, one a row

DSV31_LANES Bytes load_unit(const std::byte* p) { return {_mm512_loadu_si512(p)}; }
DSV31_LANES void store_unit(std::byte* p, Bytes x) { _mm512_storeu_si512(p, x.v); }
DSV31_LANES void prefetch(const std::byte* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0); }
DSV31_LANES Bytes quad(const std::int8_t* q) {  // 4 activations to all rows
  std::int32_t four;
  __builtin_memcpy(&four, q, 4);
  return {_mm512_set1_epi32(four)};
}

// (x >> kFrom) & kMask in every byte.
template <int kFrom, int kMask>
DSV31_LANES Bytes field(Bytes x) {
  return {_mm512_and_si512(kFrom == 0 ? x.v : _mm512_srli_epi16(x.v, kFrom), _mm512_set1_epi8(kMask))};
}
// low | ((plane >> kFrom) & kMask) << kTo in every byte.
template <int kFrom, int kTo, int kMask>
DSV31_LANES Bytes join(Bytes low, Bytes plane) {
  const __m512i x = kFrom > kTo   ? _mm512_srli_epi16(plane.v, kFrom > kTo ? kFrom - kTo : 0)
                    : kFrom < kTo ? _mm512_slli_epi16(plane.v, kFrom < kTo ? kTo - kFrom : 0)
                                  : plane.v;
  return {_mm512_ternarylogic_epi32(low.v, x, _mm512_set1_epi8(static_cast<char>(kMask << kTo)), 0xF8)};  // low | (x & mask)
}
DSV31_LANES Bytes lookup(const std::uint8_t* table, Bytes index) {  // table (16), index < 16
  const __m128i t = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(t), index.v)};
}
DSV31_LANES Bytes add_128(Bytes x) { return {_mm512_xor_si512(x.v, _mm512_set1_epi8(-128))}; }

DSV31_LANES I16 zeroi() { return {_mm512_setzero_si512()}; }
DSV31_LANES Sum sum_from(I16 acc) { return acc; }
template <bool>
DSV31_LANES Sum step(Sum s, Bytes w, Bytes x) {
  return {_mm512_dpbusd_epi32(s.v, w.v, x.v)};
}
template <bool>
struct Stored {  // a unit in a panel
  static constexpr int kBytes = 64;
  DSV31_LANES static Bytes load(const std::byte* p) { return load_unit(p); }
  DSV31_LANES static void store(std::byte* p, Bytes w) { store_unit(p, w); }
};
// (w - offset) * scale + plus in every byte, where that fits. scale: int32 a row.
DSV31_LANES Bytes times(Bytes w, int offset, I16 scale, int plus) {
  const __m512i low = _mm512_set1_epi16(255), from = _mm512_set1_epi16(static_cast<short>(offset)),
                to = _mm512_set1_epi16(static_cast<short>(plus));
  const __m512i s = _mm512_or_si512(_mm512_and_si512(scale.v, _mm512_set1_epi32(0xFFFF)), _mm512_slli_epi32(scale.v, 16));
  const __m512i even = _mm512_mullo_epi16(_mm512_sub_epi16(_mm512_and_si512(w.v, low), from), s);
  const __m512i odd = _mm512_mullo_epi16(_mm512_sub_epi16(_mm512_srli_epi16(w.v, 8), from), s);
  return {_mm512_or_si512(_mm512_add_epi16(even, to), _mm512_slli_epi16(_mm512_add_epi16(odd, to), 8))};
}

DSV31_LANES I16 sum_into(I16, Sum s) { return s; }
DSV31_LANES I16 add_scaled(I16 acc, Sum s, I16 mult) { return {_mm512_add_epi32(acc.v, _mm512_mullo_epi32(s.v, mult.v))}; }

// Multipliers of add_scaled. x: a dword a row.
template <int kByte>
DSV31_LANES I16 mult_u8(I16 x) {
  return kByte == 3 ? I16{_mm512_srli_epi32(x.v, 24)}
                    : I16{_mm512_and_si512(kByte == 0 ? x.v : _mm512_srli_epi32(x.v, 8 * kByte), _mm512_set1_epi32(255))};
}
DSV31_LANES I16 mult_less(I16 mult, int v) { return {_mm512_sub_epi32(mult.v, _mm512_set1_epi32(v))}; }

// Pairs of int16 a row: (byte a, byte b). order: where the four bytes of a row come from in its dword, 0x80 for zero.
DSV31_LANES __m512i reorder(__m512i x, std::uint32_t order) {
  const __m512i row = _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0C0C0C0C));
  return _mm512_shuffle_epi8(x, _mm512_add_epi32(_mm512_set1_epi32(static_cast<std::int32_t>(order)), row));
}
template <int kA, int kB>
DSV31_LANES I16 pair_u8(I16 x) {
  return {reorder(x.v, 0x80008000u | kA | kB << 16)};
}
DSV31_LANES I16 pair_less(I16 pair, int v) { return {_mm512_sub_epi16(pair.v, _mm512_set1_epi16(static_cast<short>(v)))}; }
// acc + pair . (sums[0], sums[1])
DSV31_LANES I16 add_pair(I16 acc, I16 pair, const std::int16_t* sums) {
  std::int32_t two;
  __builtin_memcpy(&two, sums, 4);
  return {_mm512_dpwssd_epi32(acc.v, pair.v, _mm512_set1_epi32(two))};
}

DSV31_LANES I16 load_u16(const std::byte* p) {
  return {_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}

}  // namespace dsv31::inline v1::quantized::avx512
