// out[j] = cap(W norm(x[logit_row[j]]) + bias), only for the rows whose logits are wanted.
#include <algorithm>

#include "backends/cpu/op.h"
#include "backends/cpu/ops.h"

namespace dsv31::inline v1::cpu {
namespace {

class HeadOp final : public CpuOp {
 public:
  HeadOp(const Head& op, const OpContext& context)
      : CpuOp(context),
        op_(op),
        weight_(bind(context, op.weight)),
        bias_(vector_of(context.prepare, op.bias)),
        prologue_(context.prepare, op.norm, weight_.w.desc.cols, context.isa, {.gathered = true, .planes = true}) {
    prologue_.want(weight_.kernel->form);
    use(weight_);
  }

  int phases(const Step& step) const override { return prologue_.shared(logits(step)) + 1; }
  void run(int phase, const RunContext& c) const override {
    const std::int64_t n = logits(*c.step);
    const RowSource from = {op_.x, c.step->logit_rows.data()};
    Areas area = areas(c, n);
    const Scratch s = place(area.shared, area.own, n);
    if (prologue_.shared(n) && phase == 0) return prologue_.run(c, s.prologue, n, from);
    const Inputs in = prologue_.inputs(c, s.prologue, n, from);
    const Cut cut = {weight_.strips(), item_strips(weight_.strips(), c.workers), n, chunk_rows(prologue_.cols())};
    for (std::int64_t i = c.take(1); i < cut.items() && !c.stopped(); i = c.take(1)) product(c, s, in, cut.item(i));
  }

 private:
  static constexpr std::int64_t kLd = kPanelStrips * kStrip;
  struct Scratch {
    Prologue::Place prologue;
    float* y;  // (2 chunk, panel): the panel's logits in two planes
    std::byte* kernel;
  };
  std::int64_t planes() const { return cpu::planes(weight_.kernel->form); }
  static std::int64_t logits(const Step& step) { return static_cast<std::int64_t>(step.logit_rows.size()); }
  std::int64_t few() const override { return prologue_.few(); }
  void measure(Area& shared, Area& own, std::int64_t n) const override { place(shared, own, n); }
  Scratch place(Area& shared, Area& own, std::int64_t n) const {
    Scratch s{};
    s.prologue = prologue_.place(shared, own, n);
    s.y = own.take<float>(std::min(n, chunk_rows(prologue_.cols())) * planes() * kLd);
    s.kernel = own.take<std::byte>(static_cast<std::int64_t>(weight_.scratch_bytes()));
    return s;
  }

  void product(const RunContext& c, const Scratch& s, const Inputs& in, const Cut::Item& item) const {
    const std::int64_t vocab_size = weight_.w.desc.rows, column = item.strip_begin * kStrip;
    const std::int64_t width = width_of(vocab_size, item.strip_begin, item.strip_end), m = item.row_end - item.row_begin;
    const Activations x = rows_from(in.of(weight_.kernel->form), item.row_begin * planes());
    weight_.kernel->run({.w = &weight_.w,
                         .strip_begin = item.strip_begin,
                         .strip_end = item.strip_end,
                         .x = &x,
                         .m = m * planes(),
                         .out = s.y,
                         .ld = kLd,
                         .scratch = s.kernel});
    for (std::int64_t j = 0; j < m; ++j) {
      const float* y = s.y + j * planes() * kLd;
      float* out = c.row(op_.out, item.row_begin + j, vocab_size) + column;
      if (planes() == 2)
        rows().add(y, y + kLd, width, out);
      else
        std::copy_n(y, width, out);
      if (bias_ != nullptr) rows().add(out, bias_ + column, width, out);
      if (op_.softcap > 0) rows().soft_cap(op_.softcap, width, out);
    }
  }

  Head op_;
  Matrix weight_;      // (vocab_size, hidden_size)
  const float* bias_;  // (vocab_size) or null
  Prologue prologue_;
};

}  // namespace

std::unique_ptr<PreparedOp> prepare_head(const Head& op, const PrepareContext& context, const KernelTable& kernels, Isa isa) {
  return std::make_unique<HeadOp>(op, OpContext{context, kernels, isa});
}

}  // namespace dsv31::inline v1::cpu
