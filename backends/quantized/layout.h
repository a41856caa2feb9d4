// Where every byte of a source block stands in the packed form.
//
// Problem: a kernel wants one load to bring 16 output rows; a file stores each row by itself. Method: a strip of 16 rows is
// stored block by block, a record each, and inside a record each field of the format is transposed in units of a dword (weights,
// scale bytes), a half (d, dmin) or a byte (E8M0): unit i of row r stands at (i * 16 + r). A dword of any code plane is four
// consecutive k of one row, so a field becomes a run of N16K4 units and keeps the bit fields of its format; kernels take codes
// apart in registers. The map only moves bytes (and, in Q5_0 and Q5_1, permutes the bits of qh), so it is a bijection and costs
// no memory. Scales stand in the record, behind the codes, although that puts the units of most formats off their 64-byte
// alignment: a strip is then one stream that the processor's prefetchers follow, where codes and scales in two places read from
// memory at half its speed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/matmul.h"

namespace dsv31::inline v1::quantized {

struct Field {               // 16 * bytes of the record, behind those of the field before
  std::int16_t source;       // offset in the source block
  std::int16_t bytes;        // in the source block
  std::int16_t unit;         // bytes moved together
  bool spread_bits = false;  // qh of Q5_0 and Q5_1: bit 4 j + i of the dword becomes bit j of byte i
};

struct Layout {
  DType type;
  std::int16_t block;         // elements
  std::int16_t source_bytes;  // of one block of one row
  Field fields[5];            // bytes 0: unused

  constexpr int record_bytes() const { return 16 * source_bytes; }
};

inline constexpr Layout kLayouts[] = {
    {DType::q4_0, 32, 18, {{2, 16, 4}, {0, 2, 2}}},
    {DType::q4_1, 32, 20, {{4, 16, 4}, {0, 2, 2}, {2, 2, 2}}},
    {DType::q5_0, 32, 22, {{6, 16, 4}, {2, 4, 4, true}, {0, 2, 2}}},
    {DType::q5_1, 32, 24, {{8, 16, 4}, {4, 4, 4, true}, {0, 2, 2}, {2, 2, 2}}},
    {DType::q8_0, 32, 34, {{2, 32, 4}, {0, 2, 2}}},
    {DType::iq4_nl, 32, 18, {{2, 16, 4}, {0, 2, 2}}},
    {DType::mxfp4, 32, 17, {{1, 16, 4}, {0, 1, 1}}},
    {DType::q2_k, 256, 84, {{16, 64, 4}, {0, 16, 4}, {80, 2, 2}, {82, 2, 2}}},
    {DType::q3_k, 256, 110, {{32, 64, 4}, {0, 32, 4}, {96, 12, 4}, {108, 2, 2}}},
    {DType::q4_k, 256, 144, {{16, 128, 4}, {4, 12, 4}, {0, 2, 2}, {2, 2, 2}}},
    {DType::q5_k, 256, 176, {{48, 128, 4}, {16, 32, 4}, {4, 12, 4}, {0, 2, 2}, {2, 2, 2}}},
    {DType::q6_k, 256, 210, {{0, 128, 4}, {128, 64, 4}, {192, 16, 4}, {208, 2, 2}}},
    {DType::iq4_xs, 256, 136, {{8, 128, 4}, {4, 4, 4}, {2, 2, 2}, {0, 2, 2}}},
};
inline constexpr int kLayoutCount = sizeof kLayouts / sizeof kLayouts[0];
inline constexpr int kMaxSourceBytes = 210;

// Every byte of a block is moved once.
constexpr bool bijective() {
  for (const Layout& layout : kLayouts) {
    int moved = 0;
    for (const Field& f : layout.fields) moved += f.bytes;
    if (moved != layout.source_bytes) return false;
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
  return cols / layout.block * layout.record_bytes();
}

// rows (16, source_bytes): the source blocks of a record.
void unpack_record(const Layout& layout, const std::byte* record, std::byte* rows);

}  // namespace dsv31::inline v1::quantized
