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
        prologue_(context.prepare, op.norm, weight_.w.desc.cols, context.isa, {.gathered = true}) {
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
  struct Scratch {
    Prologue::Place prologue;
    std::byte* kernel;
  };
  static std::int64_t logits(const Step& step) { return static_cast<std::int64_t>(step.logit_rows.size()); }
  std::int64_t few() const override { return prologue_.few(); }
  void measure(Area& shared, Area& own, std::int64_t n) const override { place(shared, own, n); }
  Scratch place(Area& shared, Area& own, std::int64_t n) const {
    return {prologue_.place(shared, own, n), own.take<std::byte>(static_cast<std::int64_t>(weight_.scratch_bytes()))};
  }

  void product(const RunContext& c, const Scratch& s, const Inputs& in, const Cut::Item& item) const {
    const std::int64_t vocab_size = weight_.w.desc.rows, column = item.strip_begin * kStrip;
    const std::int64_t width = width_of(vocab_size, item.strip_begin, item.strip_end), m = item.row_end - item.row_begin;
    float* out = c.row(op_.out, item.row_begin, vocab_size) + column;
    const std::int64_t ld = row_stride(vocab_size);
    const Activations x = rows_from(in.of(weight_.kernel->form), item.row_begin);
    weight_.kernel->run({.w = &weight_.w,
                         .strip_begin = item.strip_begin,
                         .strip_end = item.strip_end,
                         .x = &x,
                         .m = m,
                         .out = out,
                         .ld = ld,
                         .scratch = s.kernel});
    for (std::int64_t j = 0; j < m; ++j) {
      if (bias_ != nullptr) rows().add(out + j * ld, bias_ + column, width, out + j * ld);
      if (op_.softcap > 0) rows().soft_cap(op_.softcap, width, out + j * ld);
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
