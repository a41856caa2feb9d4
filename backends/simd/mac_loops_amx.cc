// AMX: a tile product multiplies 16 x 64 by 64 x 16 bytes and adds four products into each int32.
#include <immintrin.h>

#include <array>

#include "backends/simd/mac_loops.h"

namespace dsv31::inline v1::simd::amx {
namespace {

constexpr int kTiles = 4;  // of sums

struct alignas(64) Config {
  unsigned char palette = 1, start_row = 0, reserved[14] = {};
  unsigned short row_bytes[16] = {64, 64, 64, 64, 64, 64};
  unsigned char rows[16] = {16, 16, 16, 16, 16, 16};
};

void tile_dots(std::int64_t turns) {
  static constexpr Config kConfig;
  _tile_loadconfig(&kConfig);
  for (std::int64_t t = 0; t < turns; ++t) {
    _tile_dpbssd(0, 4, 5);
    _tile_dpbssd(1, 4, 5);
    _tile_dpbssd(2, 4, 5);
    _tile_dpbssd(3, 4, 5);
  }
  _tile_release();
}

}  // namespace

// Floats are multiplied by AVX-512.
std::span<const MacLoop> mac_loops() {
  static const std::array<MacLoop, 2> loops = [] {
    const std::span<const MacLoop> vectors = avx512::mac_loops();
    return std::array<MacLoop, 2>{{{"tile s8*s8", vectors[0].types, std::int64_t{16 * 16 * 64} * kTiles, tile_dots}, vectors[1]}};
  }();
  return loops;
}

}  // namespace dsv31::inline v1::simd::amx
