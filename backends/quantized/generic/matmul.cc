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

void read_record(const Layout& layout, const std::byte* record, StripBlock& out) {
  std::byte rows[16 * kMaxSourceBytes];
  Codes codes;
  unpack_record(layout, record, rows);
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

struct Group {               // of activations
  const std::int8_t* q;      // (32)
  const std::int16_t* sums;  // (2)
  float scale, side;
};

// dot (16) = sum of codes times activations over the 16 k of sub-block s of the block.
void sub_dot(const StripBlock& w, int s, const std::int8_t* q, std::int32_t* dot) {
  for (int r = 0; r < 16; ++r) dot[r] = 0;
  for (int k = 0; k < 16; ++k)
    for (int r = 0; r < 16; ++r) dot[r] += w.code[16 * s + k][r] * q[k];
}

// acc (16) with the group that begins at sub-block s, as backends/cpu/matmul.h defines it.
void add_joined(const StripBlock& w, int s, int run, bool minimum, const Group& x, float* acc) {
  std::int32_t dot[2][16];
  for (int i = 0; i < 2; ++i) sub_dot(w, s + i, x.q + 16 * i, dot[i]);
  for (int r = 0; r < 16; ++r) {
    if (run == 32) dot[1][r] += dot[0][r];
    for (int i = run == 32 ? 1 : 0; i < 2; ++i)
      acc[r] = __builtin_fmaf(static_cast<float>(dot[i][r]), x.scale * (w.scale[r] * static_cast<float>(w.sub_scale[s + i][r])),
                              acc[r]);
    if (minimum) acc[r] = __builtin_fmaf(x.side, -w.min_scale[r] * static_cast<float>(w.sub_min[s][r]), acc[r]);
  }
}
void add_integer(const StripBlock& w, int s, bool minimum, const Group& x, float* acc) {
  std::int32_t dot[2][16];
  for (int i = 0; i < 2; ++i) sub_dot(w, s + i, x.q + 16 * i, dot[i]);
  for (int r = 0; r < 16; ++r) {
    const std::int32_t all = w.sub_scale[s][r] * dot[0][r] + w.sub_scale[s + 1][r] * dot[1][r];
    acc[r] = __builtin_fmaf(static_cast<float>(all), x.scale * w.scale[r], acc[r]);
    if (!minimum) continue;
    const std::int32_t min_dot = w.sub_min[s][r] * x.sums[0] + w.sub_min[s + 1][r] * x.sums[1];
    acc[r] = __builtin_fmaf(static_cast<float>(-min_dot), x.scale * w.min_scale[r], acc[r]);
  }
}

}  // namespace

// out (m, 16 * strips) = x (m, cols) * W (rows, cols)^T
void matmul(const cpu::MatmulArgs& a) {
  const Layout& layout = *layout_of(a.w->desc.type);
  const std::int64_t blocks = a.w->desc.cols / layout.block;
  const bool minimum = has_min(layout.type);
  StripBlock w;
  for (std::int64_t strip = a.strip_begin; strip < a.strip_end; ++strip) {
    const std::byte* at =
        a.w->data + static_cast<std::size_t>(a.index) * a.w->stride + strip * strip_bytes(layout, a.w->desc.cols);
    float* out = a.out + 16 * (strip - a.strip_begin);
    for (std::int64_t j = 0; j < a.m; ++j)
      for (int r = 0; r < 16; ++r) out[j * a.ld + r] = 0.0f;
    for (std::int64_t b = 0; b < blocks; ++b) {
      read_record(layout, at + b * layout.record_bytes(), w);
      for (std::int64_t j = 0; j < a.m; ++j) {
        const std::int64_t row = a.rows == nullptr ? j : a.rows[j];
        for (int k = 0; k < layout.block; k += static_cast<int>(cpu::kGroup)) {
          const std::int64_t k_row = b * layout.block + k, g = row * a.x->scale_stride + k_row / cpu::kGroup;
          const Group x = {a.x->q + row * a.x->q_stride + k_row, a.x->sums + row * a.x->sum_stride + k_row / 16, a.x->scale[g],
                           a.x->side[g]};
          if (integer_sub_scales(layout.type))
            add_integer(w, k / 16, minimum, x, out + j * a.ld);
          else
            add_joined(w, k / 16, scale_run(layout.type), minimum, x, out + j * a.ld);
        }
      }
    }
  }
  clear_padding(a);
}

}  // namespace dsv31::inline v1::quantized::generic
