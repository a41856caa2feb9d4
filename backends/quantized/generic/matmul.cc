// The canonical int8 product as plain loops: the oracle of the other instruction sets, and the code for processors without AVX2.
#include "backends/quantized/generic/codes.h"
#include "backends/quantized/isa_kernels.h"
#include "backends/quantized/layout.h"

namespace dsv31::inline v1::quantized::generic {

namespace {

// One block of a strip: code (block, 16), sub scales and minima (block / 16, 16), scale and min_scale (16).
struct StripBlock {
  std::int16_t code[256][16];
  std::int32_t sub_scale[16][16], sub_min[16][16];
  float scale[16], min_scale[16];
};

void read_block(const Layout& layout, const std::byte* strip, std::int64_t blocks, std::int64_t b, StripBlock& out) {
  std::byte rows[16 * kMaxSourceBytes];
  Codes codes;
  unpack_block(layout, strip, blocks, b, rows);
  for (int r = 0; r < 16; ++r) {
    read_codes(layout.type, rows + r * layout.source_bytes, codes);
    for (int k = 0; k < layout.block; ++k) out.code[k][r] = codes.code[k];
    for (int s = 0; s < 16; ++s) {
      out.sub_scale[s][r] = codes.sub_scale[s];
      out.sub_min[s][r] = codes.sub_min[s];
    }
    out.scale[r] = codes.scale;
    out.min_scale[r] = codes.min_scale;
  }
}

// acc (16) = fma(dot, x_scale * scale, acc), then fma(-min_dot, x_scale * min_scale, acc), for the group at k0 of the block.
// q (group), sums (group / 16)
void add_group(const StripBlock& w, int k0, int group, bool minimum, const std::int8_t* q, const std::int16_t* sums,
               float x_scale, float* acc) {
  std::int32_t dot[16] = {}, min_dot[16] = {};
  for (int s = k0 / 16; s < (k0 + group) / 16; ++s) {
    std::int32_t sub[16] = {};
    for (int k = 16 * s; k < 16 * s + 16; ++k)
      for (int r = 0; r < 16; ++r) sub[r] += w.code[k][r] * q[k - k0];
    for (int r = 0; r < 16; ++r) {
      dot[r] += w.sub_scale[s][r] * sub[r];
      min_dot[r] += w.sub_min[s][r] * sums[s - k0 / 16];
    }
  }
  for (int r = 0; r < 16; ++r) acc[r] = __builtin_fmaf(static_cast<float>(dot[r]), x_scale * w.scale[r], acc[r]);
  if (!minimum) return;
  for (int r = 0; r < 16; ++r) acc[r] = __builtin_fmaf(static_cast<float>(-min_dot[r]), x_scale * w.min_scale[r], acc[r]);
}

}  // namespace

// out (m, 16 * strips) = x (m, cols) * W (rows, cols)^T
void matmul(const cpu::MatmulArgs& a) {
  const Layout& layout = *layout_of(a.w->desc.type);
  const std::int64_t blocks = a.w->desc.cols / layout.block;
  const int group = static_cast<int>(cpu::group(layout.form));
  const bool minimum = has_min(layout.type);
  StripBlock w;
  for (std::int64_t strip = a.strip_begin; strip < a.strip_end; ++strip) {
    const std::byte* at =
        a.w->data + static_cast<std::size_t>(a.index) * a.w->stride + strip * strip_bytes(layout, a.w->desc.cols);
    float* out = a.out + 16 * (strip - a.strip_begin);
    for (std::int64_t j = 0; j < a.m; ++j)
      for (int r = 0; r < 16; ++r) out[j * a.ld + r] = 0.0f;
    for (std::int64_t b = 0; b < blocks; ++b) {
      read_block(layout, at, blocks, b, w);
      for (std::int64_t j = 0; j < a.m; ++j) {
        const std::int64_t row = a.rows == nullptr ? j : a.rows[j];
        for (int k = 0; k < layout.block; k += group) {
          const std::int64_t k_row = b * layout.block + k;
          add_group(w, k, group, minimum, a.x->q + row * a.x->q_stride + k_row, a.x->sums + row * a.x->sum_stride + k_row / 16,
                    a.x->scale[row * a.x->scale_stride + k_row / group], out + j * a.ld);
        }
      }
    }
  }
  clear_padding(a);
}

}  // namespace dsv31::inline v1::quantized::generic
