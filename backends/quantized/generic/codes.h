// The integers of one block of one row, as the canonical product sees them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dsv31/tensor.h"

namespace dsv31::inline v1::quantized::generic {

// w[k] = scale * sub_scale[k / 16] * code[k] - min_scale * sub_min[k / 16]
struct Codes {
  std::int8_t code[256];
  std::int32_t sub_scale[16], sub_min[16];
  float scale, min_scale;
};

// block: one source block of a format of layout.h. has_min says whether the format has a minimum at all.
void read_codes(DType type, const std::byte* block, Codes& out);
bool has_min(DType type);
// Q2_K and Q3_K: the sub-scales enter the integer dot of a group; elsewhere they are joined with the scale.
constexpr bool integer_sub_scales(DType type) { return type == DType::q2_k || type == DType::q3_k; }
// Elements that share a scale once it is joined with the sub-scale.
constexpr int scale_run(DType type) { return type == DType::q6_k ? 16 : 32; }

}  // namespace dsv31::inline v1::quantized::generic
