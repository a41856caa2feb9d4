// Where every byte of a source block stands in the packed form.
//
// Problem: a kernel wants one load to bring 16 output rows; a file stores each row by itself. Method: a strip of 16 rows is
// stored block by block, and inside a block each field of the format is transposed in units of a dword (weights, scale bytes), a
// half (d, dmin) or a byte (E8M0): unit i of row r stands at (i * 16 + r). A dword of any code plane is four consecutive k of one
// row, so a field becomes a run of N16K4 units and keeps the bit fields of its format; kernels take codes apart in registers. The
// map only moves bytes (and, in Q5_0 and Q5_1, permutes the bits of qh), so it is a bijection and costs no memory. A strip of n
// blocks is n records followed by n tails. Tails hold what would push the units off their 64-byte alignment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/matmul.h"

namespace dsv31::inline v1::quantized {

struct Field {
  std::int16_t source;       // offset in the source block
  std::int16_t bytes;        // in the source block
  std::int16_t unit;         // bytes moved together
  bool tail;                 // in the tail, else in the record
  std::int16_t packed;       // offset of the 16 * bytes in the record or tail
  bool spread_bits = false;  // qh of Q5_0 and Q5_1: bit 4 j + i of the dword becomes bit j of byte i
};

struct Layout {
  DType type;
  std::int16_t block;         // elements
  std::int16_t source_bytes;  // of one block of one row
  std::int16_t record, tail;  // bytes a block of 16 rows; record + tail = 16 * source_bytes
  Field fields[5];            // bytes 0: unused
};

inline constexpr Layout kLayouts[] = {
    {DType::q4_0, 32, 18, 256, 32, {{2, 16, 4, false, 0}, {0, 2, 2, true, 0}}},
    {DType::q4_1, 32, 20, 256, 64, {{4, 16, 4, false, 0}, {0, 2, 2, true, 0}, {2, 2, 2, true, 32}}},
    {DType::q5_0, 32, 22, 320, 32, {{6, 16, 4, false, 0}, {2, 4, 4, false, 256, true}, {0, 2, 2, true, 0}}},
    {DType::q5_1, 32, 24, 320, 64, {{8, 16, 4, false, 0}, {4, 4, 4, false, 256, true}, {0, 2, 2, true, 0}, {2, 2, 2, true, 32}}},
    {DType::q8_0, 32, 34, 512, 32, {{2, 32, 4, false, 0}, {0, 2, 2, true, 0}}},
    {DType::iq4_nl, 32, 18, 256, 32, {{2, 16, 4, false, 0}, {0, 2, 2, true, 0}}},
    {DType::mxfp4, 32, 17, 256, 16, {{1, 16, 4, false, 0}, {0, 1, 1, true, 0}}},
    {DType::q2_k,
     256,
     84,
     1344,
     0,
     {{16, 64, 4, false, 0}, {0, 16, 4, false, 1024}, {80, 2, 2, false, 1280}, {82, 2, 2, false, 1312}}},
    {DType::q3_k,
     256,
     110,
     1728,
     32,
     {{32, 64, 4, false, 0}, {0, 32, 4, false, 1024}, {96, 12, 4, false, 1536}, {108, 2, 2, true, 0}}},
    {DType::q4_k,
     256,
     144,
     2304,
     0,
     {{16, 128, 4, false, 0}, {4, 12, 4, false, 2048}, {0, 2, 2, false, 2240}, {2, 2, 2, false, 2272}}},
    {DType::q5_k,
     256,
     176,
     2816,
     0,
     {{48, 128, 4, false, 0}, {16, 32, 4, false, 2048}, {4, 12, 4, false, 2560}, {0, 2, 2, false, 2752}, {2, 2, 2, false, 2784}}},
    {DType::q6_k,
     256,
     210,
     3328,
     32,
     {{0, 128, 4, false, 0}, {128, 64, 4, false, 2048}, {192, 16, 4, false, 3072}, {208, 2, 2, true, 0}}},
    {DType::iq4_xs,
     256,
     136,
     2176,
     0,
     {{8, 128, 4, false, 0}, {4, 4, 4, false, 2048}, {2, 2, 2, false, 2112}, {0, 2, 2, false, 2144}}},
};
inline constexpr int kLayoutCount = sizeof kLayouts / sizeof kLayouts[0];
inline constexpr int kMaxSourceBytes = 210;

// Every byte of a block is moved once, and the packed strip is as large as its rows.
constexpr bool bijective() {
  for (const Layout& layout : kLayouts) {
    int moved = 0;
    for (const Field& f : layout.fields) moved += f.bytes;
    if (moved != layout.source_bytes || layout.record + layout.tail != 16 * layout.source_bytes) return false;
  }
  return true;
}
static_assert(bijective());

constexpr const Layout* layout_of(DType type) {
  for (const Layout& layout : kLayouts)
    if (layout.type == type) return &layout;
  return nullptr;
}

constexpr std::int64_t strip_bytes(const Layout& layout, std::int64_t cols) {
  return cols / layout.block * 16 * layout.source_bytes;
}

// rows (16, source_bytes): the source blocks of block `b` of a strip of `blocks` blocks.
void unpack_block(const Layout& layout, const std::byte* strip, std::int64_t blocks, std::int64_t b, std::byte* rows);

}  // namespace dsv31::inline v1::quantized
