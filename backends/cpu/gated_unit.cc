#include "backends/cpu/gated_unit.h"

#include <algorithm>

namespace dsv31::inline v1::cpu {
namespace {
constexpr std::int64_t kLd = kPanelStrips * kStrip;
}  // namespace

GatedUnit::GatedUnit(const OpContext& context, const Weights& w)
    : kernels_(&row_kernels(context.isa)),
      gate_(bind(context, w.gate)),
      up_(bind(context, w.up)),
      down_(bind(context, w.down)),
      gate_bias_(vector_of(context.prepare, w.gate_bias)),
      up_bias_(vector_of(context.prepare, w.up_bias)),
      activation_(w.activation) {}

std::size_t GatedUnit::scratch_bytes() const {
  return std::max({gate_.scratch_bytes(), up_.scratch_bytes(), down_.scratch_bytes()});
}

Cut GatedUnit::cut(std::int64_t rows, std::int64_t units, int workers) const {
  const Form form = down_.kernel->form;
  const std::int64_t least = form == Form::f32 ? 1 : kGroup / kStrip;
  return {gate_.strips(), std::max(least, item_strips(gate_.strips() * units, workers)), rows, chunk_rows(gate_.w.desc.cols)};
}

GatedUnit::Tiles GatedUnit::place_tiles(Area& own, std::int64_t rows) const {
  const std::int64_t floats = std::min(rows, chunk_rows(gate_.w.desc.cols)) * kLd;
  float* gate = own.take<float>(planes() * floats);
  return {gate, own.take<float>(floats)};
}

void GatedUnit::run(const Panel& p, const Tiles& tiles, std::byte* kernel_scratch) const {
  for (const Matrix* matrix : {&gate_, &up_}) {
    const Activations x = rows_from(p.in->of(matrix->kernel->form), p.rows == nullptr ? p.in_row : 0);
    matrix->kernel->run({.w = &matrix->w,
                         .index = p.index,
                         .strip_begin = p.strip_begin,
                         .strip_end = p.strip_end,
                         .x = &x,
                         .rows = p.rows,
                         .m = p.m,
                         .out = matrix == &gate_ ? tiles.gate : tiles.up,
                         .ld = kLd,
                         .scratch = kernel_scratch});
  }
  const std::int64_t column = p.strip_begin * kStrip, n = width_of(width(), p.strip_begin, p.strip_end);
  const float* gate_bias = gate_bias_ == nullptr ? nullptr : gate_bias_ + column;
  const float* up_bias = up_bias_ == nullptr ? nullptr : up_bias_ + column;
  for (std::int64_t j = 0; j < p.m; ++j) {
    float* h = tiles.gate + j * kLd;
    kernels_->gated(activation_, h, gate_bias, tiles.up + j * kLd, up_bias, n, h);
    if (planes() == 1)
      fill_columns(*kernels_, *p.hidden, p.hidden_row + j, column, h, n);
    else
      fill_planes(*kernels_, *p.hidden, p.hidden_row + j, column, h, n, h);
  }
}

}  // namespace dsv31::inline v1::cpu
