// out_p = residual + post_norm(W_p norm(x) + bias_p) for each part p. Phases: the input rows, if they are many; the products of
// all parts as one list of items; the post norm, which needs whole rows.
#include <algorithm>
#include <vector>

#include "backends/cpu/op.h"
#include "backends/cpu/ops.h"

namespace dsv31::inline v1::cpu {
namespace {

class LinearOp final : public CpuOp {
 public:
  LinearOp(const Linear& op, const OpContext& context)
      : CpuOp(context),
        op_(op),
        prologue_(context.prepare, op.norm, context.prepare.matrices[op.parts.front().weight].desc.cols, context.isa,
                  {.overwritten = overwrites_input(op)}),
        post_weight_(vector_of(context.prepare, op.post_norm.weight)) {
    for (const Linear::Part& part : op.parts) {
      parts_.push_back({bind(context, part.weight), vector_of(context.prepare, part.bias), part.out});
      const Matrix& m = parts_.back().weight;
      prologue_.want(m.kernel->form);
      kernel_scratch_ = std::max(kernel_scratch_, m.scratch_bytes());
      strips_ += m.strips();
      use(m);
    }
  }

  int phases(const Step& step) const override { return prologue_.shared(step.rows()) + 1 + has_post(); }
  void run(int phase, const RunContext& c) const override {
    const std::int64_t n = c.step->rows();
    Areas area = areas(c, n);
    const Scratch s = place(area.shared, area.own, n);
    if (!prologue_.shared(n)) ++phase;
    if (phase == 0) return prologue_.run(c, s.prologue, n, {op_.x});
    if (phase == 1) return products(c, s, n);
    post(c, s, n);
  }

 private:
  struct Part {
    Matrix weight;      // (out_features, in_features)
    const float* bias;  // (out_features) or null
    ValueId out;        // (n, out_features)
  };
  struct Scratch {
    Prologue::Place prologue;
    float* y;     // post norm: (n, row_stride(out_features)) of each part
    float* tile;  // with a residual: (chunk, panel)
    std::byte* kernel;
  };
  static bool overwrites_input(const Linear& op) {
    return std::any_of(op.parts.begin(), op.parts.end(), [&](const Linear::Part& part) { return part.out == op.x; });
  }
  bool has_post() const { return op_.post_norm.weight != kNone; }
  bool has_tile() const { return !has_post() && op_.residual != kNone; }
  std::int64_t few() const override { return prologue_.few(); }
  void measure(Area& shared, Area& own, std::int64_t n) const override { place(shared, own, n); }
  Scratch place(Area& shared, Area& own, std::int64_t n) const {
    Scratch s{};
    s.prologue = prologue_.place(shared, own, n);
    if (has_post()) s.y = shared.take<float>(n * strips_ * kStrip);
    if (has_tile()) s.tile = own.take<float>(std::min(n, chunk_rows(prologue_.cols())) * kPanelStrips * kStrip);
    s.kernel = own.take<std::byte>(static_cast<std::int64_t>(kernel_scratch_));
    return s;
  }

  void products(const RunContext& c, const Scratch& s, std::int64_t n) const {
    const Inputs in = prologue_.inputs(c, s.prologue, n, {op_.x});
    const std::int64_t strips = item_strips(strips_, c.workers), chunk = chunk_rows(prologue_.cols());
    std::int64_t i = c.take(1), first = 0;  // first item of the part
    float* y = s.y;
    for (const Part& part : parts_) {
      const Cut cut = {part.weight.strips(), strips, n, chunk};
      for (; i < first + cut.items(); i = c.take(1)) {
        if (c.stopped()) return;
        product(c, s, part, y, in, cut.item(i - first));
      }
      first += cut.items();
      if (has_post()) y += n * cut.strips * kStrip;
    }
  }

  void product(const RunContext& c, const Scratch& s, const Part& part, float* y, const Inputs& in, const Cut::Item& item) const {
    const std::int64_t out_features = part.weight.w.desc.rows, column = item.strip_begin * kStrip;
    const std::int64_t width = width_of(out_features, item.strip_begin, item.strip_end), m = item.row_end - item.row_begin;
    float* to = s.tile;
    std::int64_t ld = kPanelStrips * kStrip;
    if (!has_tile()) {
      ld = row_stride(out_features);
      to = (has_post() ? y + item.row_begin * ld : c.row(part.out, item.row_begin, out_features)) + column;
    }
    const Activations x = rows_from(in.of(part.weight.kernel->form), item.row_begin);
    part.weight.kernel->run({.w = &part.weight.w,
                             .strip_begin = item.strip_begin,
                             .strip_end = item.strip_end,
                             .x = &x,
                             .m = m,
                             .out = to,
                             .ld = ld,
                             .scratch = s.kernel});
    for (std::int64_t j = 0; j < m; ++j) {
      float* row = to + j * ld;
      if (part.bias != nullptr) rows().add(row, part.bias + column, width, row);
      if (!has_tile()) continue;
      const std::int64_t r = item.row_begin + j;
      store_sum(c, op_.residual, row, part.out, out_features, r, column, width);
    }
  }

  void post(const RunContext& c, const Scratch& s, std::int64_t n) const {
    for (std::int64_t r = c.take(1); r < n && !c.stopped(); r = c.take(1)) {
      float* y = s.y;
      for (const Part& part : parts_) {
        const std::int64_t width = part.weight.w.desc.rows;
        float* row = y + r * row_stride(width);
        rows().rms_norm(row, post_weight_, op_.post_norm.eps, width, row);
        store_sum(c, op_.residual, row, part.out, width, r, 0, width);
        y += n * row_stride(width);
      }
    }
  }

  Linear op_;
  Prologue prologue_;
  std::vector<Part> parts_;
  const float* post_weight_;  // (out_features) or null
  std::int64_t strips_ = 0;   // of all parts
  std::size_t kernel_scratch_ = 0;
};

}  // namespace

std::unique_ptr<PreparedOp> prepare_linear(const Linear& op, const PrepareContext& context, const KernelTable& kernels, Isa isa) {
  return std::make_unique<LinearOp>(op, OpContext{context, kernels, isa});
}

}  // namespace dsv31::inline v1::cpu
