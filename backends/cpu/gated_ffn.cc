// out = residual + post_norm(down (activation(gate norm(x)) * up norm(x))). Phases: the input rows, if they are many; the gated
// unit; down with the residual; with a post norm, which needs whole rows, down into scratch and a last phase.
#include <algorithm>

#include "backends/cpu/gated_unit.h"
#include "backends/cpu/ops.h"

namespace dsv31::inline v1::cpu {
namespace {

class GatedFfnOp final : public CpuOp {
 public:
  GatedFfnOp(const GatedFfn& op, const OpContext& context)
      : CpuOp(context),
        op_(op),
        unit_(context, {op.gate, op.up, op.down, op.gate_bias, op.up_bias, op.activation}),
        prologue_(context.prepare, op.norm, unit_.gate().w.desc.cols, context.isa, {}),
        down_bias_(vector_of(context.prepare, op.down_bias)),
        post_weight_(vector_of(context.prepare, op.post_norm.weight)) {
    prologue_.want(unit_.gate().kernel->form);
    prologue_.want(unit_.up().kernel->form);
    use(unit_.gate());
    use(unit_.up());
    use(unit_.down());
  }

  int phases(const Step& step) const override { return prologue_.shared(step.rows()) + 2 + has_post(); }
  void run(int phase, const RunContext& c) const override {
    const std::int64_t n = c.step->rows();
    Areas area = areas(c, n);
    const Scratch s = place(area.shared, area.own, n);
    if (!prologue_.shared(n)) ++phase;
    if (phase == 0) return prologue_.run(c, s.prologue, n, {op_.x});
    if (phase == 1) return gated(c, s, n);
    if (phase == 2) return down(c, s, n);
    post(c, s, n);
  }

 private:
  struct Scratch {
    Prologue::Place prologue;
    Activations hidden;      // (n, intermediate_size)
    float* y;                // post norm: (n, row_stride(hidden_size))
    GatedUnit::Tiles tiles;  // the gate's is also the output panel of down, in all planes
    std::byte* kernel;
  };
  bool has_post() const { return op_.post_norm.weight != kNone; }
  std::int64_t hidden_size() const { return unit_.down().w.desc.rows; }
  std::int64_t few() const override { return prologue_.few(); }
  void measure(Area& shared, Area& own, std::int64_t n) const override { place(shared, own, n); }
  Scratch place(Area& shared, Area& own, std::int64_t n) const {
    Scratch s{};
    s.prologue = prologue_.place(shared, own, n);
    s.hidden = unit_.place_hidden(shared, n);
    if (has_post()) s.y = shared.take<float>(n * row_stride(hidden_size()));
    s.tiles = unit_.place_tiles(own, n);
    s.kernel = own.take<std::byte>(static_cast<std::int64_t>(unit_.scratch_bytes()));
    return s;
  }

  void gated(const RunContext& c, const Scratch& s, std::int64_t n) const {
    const Inputs in = prologue_.inputs(c, s.prologue, n, {op_.x});
    const Cut cut = unit_.cut(n, 1, c.workers);
    for (std::int64_t i = c.take(1); i < cut.items() && !c.stopped(); i = c.take(1)) {
      const Cut::Item item = cut.item(i);
      unit_.run({.strip_begin = item.strip_begin,
                 .strip_end = item.strip_end,
                 .in = &in,
                 .in_row = item.row_begin,
                 .m = item.row_end - item.row_begin,
                 .hidden = &s.hidden,
                 .hidden_row = item.row_begin},
                s.tiles, s.kernel);
    }
  }

  void down(const RunContext& c, const Scratch& s, std::int64_t n) const {
    const Matrix& w = unit_.down();
    const std::int64_t chunk = std::min(chunk_rows(prologue_.cols()), chunk_rows(unit_.width()));
    const Cut cut = {w.strips(), item_strips(w.strips(), c.workers), n, chunk};
    for (std::int64_t i = c.take(1); i < cut.items() && !c.stopped(); i = c.take(1)) {
      const Cut::Item item = cut.item(i);
      const std::int64_t column = item.strip_begin * kStrip, width = width_of(hidden_size(), item.strip_begin, item.strip_end);
      const std::int64_t ld = kPanelStrips * kStrip, planes = unit_.planes();
      float* y = s.tiles.gate;
      const Activations h = rows_from(s.hidden, item.row_begin * planes);
      w.kernel->run({.w = &w.w,
                     .strip_begin = item.strip_begin,
                     .strip_end = item.strip_end,
                     .x = &h,
                     .m = (item.row_end - item.row_begin) * planes,
                     .out = y,
                     .ld = ld,
                     .scratch = s.kernel});
      for (std::int64_t r = item.row_begin; r < item.row_end; ++r, y += planes * ld) {
        if (planes == 2) rows().add(y, y + ld, width, y);
        if (down_bias_ != nullptr) rows().add(y, down_bias_ + column, width, y);
        if (has_post())
          std::copy_n(y, width, s.y + r * row_stride(hidden_size()) + column);
        else
          store_sum(c, op_.residual, y, op_.out, hidden_size(), r, column, width);
      }
    }
  }

  void post(const RunContext& c, const Scratch& s, std::int64_t n) const {
    const std::int64_t width = hidden_size();
    for (std::int64_t r = c.take(1); r < n && !c.stopped(); r = c.take(1)) {
      float* y = s.y + r * row_stride(width);
      rows().rms_norm(y, post_weight_, op_.post_norm.eps, width, y);
      store_sum(c, op_.residual, y, op_.out, width, r, 0, width);
    }
  }

  GatedFfn op_;
  GatedUnit unit_;
  Prologue prologue_;
  const float *down_bias_, *post_weight_;  // (hidden_size) or null
};

}  // namespace

std::unique_ptr<PreparedOp> prepare_gated_ffn(const GatedFfn& op, const PrepareContext& context, const KernelTable& kernels,
                                              Isa isa) {
  return std::make_unique<GatedFfnOp>(op, OpContext{context, kernels, isa});
}

}  // namespace dsv31::inline v1::cpu
