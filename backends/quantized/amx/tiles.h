// The int8 product on AMX tiles, equal in bits to the other instruction sets. From 16 columns on; fewer are AVX-512's.
//
// A tile product gives the exact int32 dots of 16 rows of weights with 16 columns over one run of k, which then leave the tile
// through memory and enter 16 float32 accumulators in registers, one a column, as the canonical product asks. The panels are
// those of AVX-512 with signed units, since tiles multiply signed by signed; a unit of 16 rows x 4 k is a row of a tile as it
// stands. A tile reads its 16 columns in place where they follow each other (Intel SDM volume 1, chapter 18).
#pragma once

#define DSV31_ISA_AVX512
#include "backends/quantized/avx512/units.h"
#include "backends/quantized/product.h"

namespace dsv31::inline v1::quantized::amx {

using namespace avx512;

inline constexpr std::int64_t kTile = 16, kPanelGroups = kPanelDepth / cpu::kGroup;

struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
// Tile 0: dots (16 columns, 16 rows) of int32; 1: int8 columns (16, run); 2: weights (run / 4, 16 rows x 4).
constexpr TileConfig config_of(int run) {
  TileConfig c;
  c.row_bytes[0] = c.row_bytes[2] = 64;
  c.row_bytes[1] = static_cast<std::uint16_t>(run);
  c.rows[0] = c.rows[1] = 16;
  c.rows[2] = static_cast<std::uint8_t>(run / 4);
  return c;
}

// 16 columns over the depth of a panel; those past the last one are zero. Their int8 rows stay where they are when they follow
// each other there, and are else copied to rows that do not share cache sets.
struct alignas(64) Columns {
  const std::int8_t* q;
  std::int64_t q_stride;
  alignas(64) float scale[kTile][kPanelGroups], side[kTile][kPanelGroups];
  std::int16_t sums[kTile][2 * kPanelGroups];
  std::int8_t copy[kTile][kPanelDepth + 64];
};
static_assert(sizeof(Columns) == kTileColumns);

template <std::size_t kBytes>
DSV31_LANES void copy_or_clear(bool copy, void* to, const void* from) {
  if (copy)
    __builtin_memcpy(to, from, kBytes);
  else
    __builtin_memset(to, 0, kBytes);
}

// Codes without the offset that AVX-512 wants, which fit a signed byte but for the products of Q3_K with its sub-scales.
template <class P>
inline constexpr bool kSignedTile = P::kOffset != 124;

// Columns [j, j + count) from k on, a multiple of kPanelDepth; rows of scales, sides and sums are padded to whole panels.
template <class P>
void gather(const cpu::MatmulArgs& a, std::int64_t j, std::int64_t count, std::int64_t k, std::int64_t groups, Columns& to) {
  const bool in_place = a.rows == nullptr && count == kTile;
  to.q = in_place ? a.x->q + j * a.x->q_stride + k : to.copy[0];
  to.q_stride = in_place ? a.x->q_stride : kPanelDepth + 64;
  for (std::int64_t c = 0; c < kTile; ++c) {
    const bool given = c < count;
    const Column x = column(a, given ? j + c : j);
    copy_or_clear<sizeof to.scale[c]>(given, to.scale[c], x.scale + k / cpu::kGroup);
    if constexpr (P::kMin == Min::added) copy_or_clear<sizeof to.side[c]>(given, to.side[c], x.side + k / cpu::kGroup);
    if constexpr (P::kPairs || !kSignedTile<P>) copy_or_clear<sizeof to.sums[c]>(given, to.sums[c], x.sums + k / 16);
    for (std::int64_t i = 0; !in_place && i < groups; i += 4) copy_or_clear<128>(given, to.copy[c] + 32 * i, x.q + k + 32 * i);
  }
}

template <class P>
void make_signed(std::byte* panel, std::int64_t groups) {
  if constexpr (P::kOffset != 0 && kSignedTile<P>)
    for (; groups > 0; --groups, panel += P::kBytes)
      DSV31_UNROLL for (int u = 0; u < 8; ++u) store_unit(
          panel + 64 * u, {_mm512_sub_epi8(load_unit(panel + 64 * u).v, _mm512_set1_epi8(static_cast<char>(P::kOffset)))});
}

// dots (16, 16) of run s of group g, left in memory
template <class P>
DSV31_LANES void tile_dots(const std::byte* group, const Columns& x, std::int64_t g, int s, std::int32_t* dots) {
  _tile_loadd(1, x.q + 32 * g + s * P::kRun, x.q_stride);
  _tile_loadd(2, group + s * P::kRun * 16, 64);
  _tile_zero(0);
  if constexpr (kSignedTile<P>)
    _tile_dpbssd(0, 1, 2);
  else
    _tile_dpbsud(0, 1, 2);
  _tile_stored(0, dots, 64);
}

template <class P, int s>
DSV31_LANES void tile_finish(const std::byte* group, const Columns& x, std::int64_t g, const std::int32_t* dots,
                             V16 (&acc)[kTile]) {
  const PanelGroup<P> w = {group};
  const V16 scale = w.template scale<s>();
  V16 minimum;
  I16 pair;
  if constexpr (P::kMin != Min::none) minimum = w.minimum();
  if constexpr (P::kPairs) pair = w.pair();
  DSV31_UNROLL for (int c = 0; c < kTile; ++c) {
    I16 dot = loadi(dots + 16 * c);
    if constexpr (!kSignedTile<P>) dot = add_pair(dot, set1i(-P::kOffset * 0x10000 + (-P::kOffset & 0xFFFF)), &x.sums[c][2 * g]);
    const V16 x_scale = set1(x.scale[c][g]);
    acc[c] = fma(to_float(dot), mul(x_scale, scale), acc[c]);
    if constexpr (P::kMin == Min::sub_scaled)
      acc[c] = fnma(to_float(add_pair(zeroi(), pair, &x.sums[c][2 * g])), mul(x_scale, minimum), acc[c]);
    if constexpr (P::kMin == Min::added && s == P::kRuns - 1) acc[c] = fma(set1(x.side[c][g]), minimum, acc[c]);
  }
}

// out[c] (16) += w (depth, 16) * columns, for the first `count` columns. The dots of a group are on their way while those of the
// group before are finished.
template <class P>
void tile_product(const std::byte* panel, std::int64_t groups, const Columns& x, std::int64_t count, bool first, float* out,
                  std::int64_t ld) {
  alignas(64) std::int32_t dots[2][P::kRuns][16 * kTile];
  V16 acc[kTile];
  DSV31_UNROLL for (int c = 0; c < kTile; ++c) acc[c] = first || c >= count ? set1(0.0f) : load(out + c * ld);
  unroll<P::kRuns>(DSV31_STEP(s) { tile_dots<P>(panel, x, 0, s.value, dots[0][s.value]); });
  for (std::int64_t g = 0; g < groups; ++g, panel += P::kBytes) {
    if (g + 1 < groups)
      unroll<P::kRuns>(DSV31_STEP(s) { tile_dots<P>(panel + P::kBytes, x, g + 1, s.value, dots[(g + 1) % 2][s.value]); });
    unroll<P::kRuns>(DSV31_STEP(s) { tile_finish<P, decltype(s)::value>(panel, x, g, dots[g % 2][s.value], acc); });
  }
  DSV31_UNROLL for (int c = 0; c < kTile; ++c) if (c < count) store(out + c * ld, acc[c]);
}

template <DType kType>
void matmul(const cpu::MatmulArgs& a) {
  if (a.m < kTile) return avx512::matmul<kType>(a);
  using P = Panel<Block<kType, 0>>;
  static constexpr TileConfig kConfig = config_of(P::kRun);
  constexpr std::int64_t kDepth = kPanelDepth / kLayout<kType>.block;
  const std::int64_t blocks = a.w->desc.cols / kLayout<kType>.block, pitch = blocks * kLayout<kType>.record_bytes(),
                     strips = a.strip_end - a.strip_begin;
  const std::byte* strip = a.w->data + a.index * static_cast<std::int64_t>(a.w->stride) + a.strip_begin * pitch;
  Columns& x = *reinterpret_cast<Columns*>(a.scratch + kPanelScratch);
  _tile_loadconfig(&kConfig);
  for (std::int64_t b = 0; b < blocks; b += kDepth) {
    const std::int64_t count = blocks - b < kDepth ? blocks - b : kDepth, groups = count * (kLayout<kType>.block / cpu::kGroup);
    for (std::int64_t s = 0; s < strips; ++s) {
      std::byte* panel = a.scratch + s * kPanelStride;
      expand_records<kType>(strip + s * pitch + b * kLayout<kType>.record_bytes(), count, panel);
      make_signed<P>(panel, groups);
    }
    for (std::int64_t j = 0; j < a.m; j += kTile) {
      const std::int64_t columns = a.m - j < kTile ? a.m - j : kTile;
      gather<P>(a, j, columns, b * kLayout<kType>.block, groups, x);
      for (std::int64_t s = 0; s < strips; ++s)
        tile_product<P>(a.scratch + s * kPanelStride, groups, x, columns, b == 0, a.out + j * a.ld + 16 * s, a.ld);
    }
  }
  _tile_release();
  clear_padding(a);
}

}  // namespace dsv31::inline v1::quantized::amx
