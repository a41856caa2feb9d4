// c (m, n) += a (m, k) b (k, n) on registers, one accumulator an element, k ascending by fma: both products of attention, q K^T
// with transposed K and P V. A register tile holds R rows of c and C vectors of 16 columns: 6 x 4 fills 24 of 32 zmm, 6 x 1
// twelve of 16 ymm. Splitting k over calls stores and reloads the same accumulator, so the tile's shape never shows in the bits.
// Included only by the files of one instruction set, after lanes.h.
#pragma once

#include "backends/simd/lanes.h"

namespace dsv31::inline v1::cpu::DSV31_ISA {

using namespace simd::DSV31_ISA;

inline constexpr std::int64_t kRows = 6;

constexpr int columns(std::int64_t rows) {
#if defined(DSV31_ISA_AVX512)
  return rows > 0 ? 4 : 1;
#else
  return rows == 1 ? 4 : rows == 2 ? 2 : 1;
#endif
}

struct Product {
  const float* a;  // (m, lda)
  std::int64_t lda;
  const void* b;  // (k, ldb), f32 or f16
  std::int64_t ldb;
  std::int64_t k;
  float* c;  // (m, ldc)
  std::int64_t ldc;
  bool first;  // c starts from zero
};

DSV31_LANES V16 load_b(const float* p) { return load(p); }
DSV31_LANES V16 load_b(const std::uint16_t* p) { return load_f16(p); }

template <int R, int C, class B>
static void tile(const Product& p, std::int64_t column) {
  V16 acc[R][C];
  float* c = p.c + column;
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < C; ++j) acc[i][j] = p.first ? zero() : load(c + i * p.ldc + 16 * j);
  const B* b = static_cast<const B*>(p.b) + column;
  const float* a = p.a;
  const std::int64_t lda = p.lda, ldb = p.ldb;
  for (std::int64_t k = p.k; k > 0; --k, ++a, b += ldb) {
    V16 row[C];
#pragma GCC unroll 4
    for (int j = 0; j < C; ++j) row[j] = load_b(b + 16 * j);
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) {
      const V16 x = set1(a[i * lda]);
#pragma GCC unroll 4
      for (int j = 0; j < C; ++j) acc[i][j] = fma(x, row[j], acc[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < C; ++j) store(c + i * p.ldc + 16 * j, acc[i][j]);
}

template <int R, class B>
static void row_tile(const Product& p, std::int64_t begin, std::int64_t end) {
  constexpr int C = columns(R);
  std::int64_t column = begin;
  for (; column + 16 * C <= end; column += 16 * C) tile<R, C, B>(p, column);
  for (; column < end; column += 16) tile<R, 1, B>(p, column);
}

// The columns [begin, end) of c, multiples of 16, for m <= kRows rows.
template <class B>
static void product(std::int64_t m, const Product& p, std::int64_t begin, std::int64_t end) {
  switch (m) {
    case 1:
      return row_tile<1, B>(p, begin, end);
    case 2:
      return row_tile<2, B>(p, begin, end);
    case 3:
      return row_tile<3, B>(p, begin, end);
    case 4:
      return row_tile<4, B>(p, begin, end);
    case 5:
      return row_tile<5, B>(p, begin, end);
    default:
      return row_tile<6, B>(p, begin, end);
  }
}

}  // namespace dsv31::inline v1::cpu::DSV31_ISA
