// FP8 as DeepSeek ships it: E4M3 codes of a matrix with one float32 scale a block of 128 x 128, ragged at the right and the lower
// edge. The scale multiplies: w[i, j] = code[i, j] * scale[i / 128, j / 128] (weight_scale_inv, despite its name).
#pragma once

#include <cstddef>
#include <cstdint>

#include "dsv31/export.h"

namespace dsv31::inline v1::quant {

// The rows of a matrix that share their scales: a band of at most `block` rows.
struct Fp8Band {
  std::int64_t rows = 0, cols = 0;
  std::int64_t block = 128;
  std::byte* codes = nullptr;  // (rows, cols)
  float* scales = nullptr;     // (ceil(cols / block))
};

// codes[i, j] = the E4M3 value nearest to w[i, j] / scale in exact arithmetic, ties to even; scale = absmax of the block / 448,
// so that nothing saturates; 1 for a block of zeros. w (rows, cols), finite.
void encode_fp8(const float* w, const Fp8Band& band);
// w[i, j] = codes[i, j] * scales[j / block], rounded once to float32. w (rows, cols).
void decode_fp8(const Fp8Band& band, float* w);

}  // namespace dsv31::inline v1::quant
