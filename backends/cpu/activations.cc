#include "backends/cpu/activations.h"

#include <cstring>

namespace dsv31::inline v1::cpu {
namespace {

constexpr std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }
constexpr std::int64_t kRowGrain = 4;  // rows that a worker takes at a time

}  // namespace

Activations place_activations(Area& area, Form form, std::int64_t rows, std::int64_t cols) {
  Activations a{.form = form, .cols = cols};
  if (form == Form::f32) {
    a.f32_stride = row_stride(cols);
    a.f32 = area.take<float>(rows * a.f32_stride);
    return a;
  }
  a.q_stride = round_up(cols, 128);
  a.scale_stride = round_up((cols + kGroup - 1) / kGroup, 16);
  a.sum_stride = round_up(a.q_stride / 16, 32);
  a.q = area.take<std::int8_t>(rows * a.q_stride);
  a.scale = area.take<float>(rows * a.scale_stride);
  a.side = area.take<float>(rows * a.scale_stride);
  a.sums = area.take<std::int16_t>(rows * a.sum_stride);
  return a;
}

Activations rows_from(Activations a, std::int64_t row) {
  if (a.form == Form::f32) {
    a.f32 += row * a.f32_stride;
  } else {
    a.q += row * a.q_stride;
    a.scale += row * a.scale_stride;
    a.side += row * a.scale_stride;
    a.sums += row * a.sum_stride;
  }
  return a;
}

void fill_columns(const RowKernels& kernels, const Activations& to, std::int64_t row, std::int64_t k_begin, const float* x,
                  std::int64_t n) {
  // The op that placed the rows owns them: Activations is const only for kernels.
  if (to.form == Form::f32) {
    std::memcpy(const_cast<float*>(to.f32) + row * to.f32_stride + k_begin, x, static_cast<std::size_t>(n) * sizeof(float));
    return;
  }
  const std::int64_t padded = k_begin + n == to.cols ? to.q_stride - k_begin : n;
  const std::int64_t first = row * to.scale_stride + k_begin / kGroup;
  kernels.quantize(x, n, padded, const_cast<std::int8_t*>(to.q) + row * to.q_stride + k_begin,
                   const_cast<float*>(to.scale) + first, const_cast<float*>(to.side) + first,
                   const_cast<std::int16_t*>(to.sums) + row * to.sum_stride + k_begin / 16);
}

void fill_planes(const RowKernels& kernels, const Activations& to, std::int64_t row, std::int64_t k_begin, const float* x,
                 std::int64_t n, float* rest) {
  if (planes(to.form) == 1) return fill_columns(kernels, to, row, k_begin, x, n);
  fill_columns(kernels, to, 2 * row, k_begin, x, n);
  const Activations first = rows_from(to, 2 * row);
  kernels.remainder(x, first.q + k_begin, first.scale + k_begin / kGroup, n, rest);
  fill_columns(kernels, to, 2 * row + 1, k_begin, rest, n);
}

Prologue::Prologue(const PrepareContext& context, const Norm& norm, std::int64_t cols, Isa isa, Options options)
    : kernels_(&row_kernels(isa)),
      cols_(cols),
      weight_id_(norm.weight),
      weight_(norm.weight == kNone || context.vectors == nullptr ? nullptr : context.vectors[norm.weight]),
      eps_(norm.eps),
      options_(options) {}

Prologue::Place Prologue::place(Area& shared_area, Area& own, std::int64_t n) const {
  Place p;
  if (trivial()) return p;
  Area& area = shared(n) ? shared_area : own;
  for (Form form : {Form::f32, Form::q8})
    if (wanted_[static_cast<int>(form)] && (form != Form::f32 || keeps_float()))
      p.in.of(form) = place_activations(area, form, options_.planes ? n * planes(form) : n, cols_);
  if (normed() && !wanted_[0]) p.row = own.take<float>(row_stride(cols_));
  if (options_.planes) p.rest = own.take<float>(row_stride(cols_));
  return p;
}

void Prologue::build(const RunContext& c, const Place& place, std::int64_t i, RowSource from) const {
  const float* x = c.row(from.x, from.rows == nullptr ? i : static_cast<std::int64_t>(from.rows[i]), cols_);
  const Activations& kept = place.in.of(Form::f32);
  if (normed()) {
    float* y = wanted_[0] ? const_cast<float*>(kept.f32) + i * kept.f32_stride : place.row;
    kernels_->rms_norm(x, weight_, eps_, cols_, y);
    x = y;
  } else if (keeps_float()) {
    fill_columns(*kernels_, kept, i, 0, x, cols_);
  }
  if (wanted_[1] && options_.planes)
    fill_planes(*kernels_, place.in.of(Form::q8), i, 0, x, cols_, place.rest);
  else if (wanted_[1])
    fill_columns(*kernels_, place.in.of(Form::q8), i, 0, x, cols_);
}

void Prologue::run(const RunContext& c, const Place& place, std::int64_t n, RowSource from) const {
  for (std::int64_t r = c.take(kRowGrain); r < n && !c.stopped(); r = c.take(kRowGrain))
    for (std::int64_t i = r; i < n && i < r + kRowGrain; ++i) build(c, place, i, from);
}

Inputs Prologue::inputs(const RunContext& c, const Place& place, std::int64_t n, RowSource from) const {
  Inputs in = place.in;
  if (!trivial() && !shared(n))
    for (std::int64_t i = 0; i < n; ++i) build(c, place, i, from);
  if (wanted_[0] && !keeps_float())
    in.of(Form::f32) = {.form = Form::f32, .cols = cols_, .f32 = c.values[from.x], .f32_stride = row_stride(cols_)};
  return in;
}

}  // namespace dsv31::inline v1::cpu
