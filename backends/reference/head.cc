// The logits of the rows that want them: out[j] = cap(W norm(x[logit_row[j]]) + bias).
#include "backends/reference/gated_unit.h"
#include "backends/reference/norm.h"
#include "backends/reference/ops.h"
#include "backends/reference/softmax.h"

namespace dsv31::inline v1::reference {
namespace {

class HeadOp final : public RowsOp {
 public:
  HeadOp(const Head& op, const PrepareContext& p)
      : op_(op), norm_(p, op.norm), weight_(matrix_of(p, op.weight)), bias_(vector_of(p, op.bias)) {}

 private:
  std::int64_t rows(const Step& step) const override { return static_cast<std::int64_t>(step.logit_rows.size()); }
  std::int64_t scratch_doubles() const override {
    return tile_doubles(weight_.desc.cols) + tile_doubles(weight_.desc.rows) + panel_doubles(weight_.desc.cols);
  }
  void run_tile(int, const RunContext& c, Rows rows, Scratch scratch) const override {
    const Tile x = scratch.tile(rows.size(), weight_.desc.cols), y = scratch.tile(rows.size(), weight_.desc.rows);
    double* panel = scratch.doubles(panel_doubles(weight_.desc.cols));
    for (std::int64_t i = 0; i < rows.size(); ++i)
      std::copy_n(c.row(op_.x, c.step->logit_rows[static_cast<std::size_t>(rows.begin + i)], x.width), x.width, x.row(i));
    norm_(x);
    multiply(c, weight_, 0, x, y, panel);
    add_bias(bias_, y);
    for (std::int64_t i = 0; i < rows.size(); ++i)
      for (std::int64_t j = 0; j < y.width; ++j) y.row(i)[j] = soft_cap(y.row(i)[j], op_.softcap);
    store_sum(c, kNone, y, op_.out, rows);
  }

  Head op_;
  RmsNorm norm_;
  PackedMatrix weight_;  // (vocab_size, hidden_size)
  const float* bias_;    // (vocab_size) or null
};

}  // namespace

std::unique_ptr<PreparedOp> prepare_op(const Head& op, const PrepareContext& p) { return std::make_unique<HeadOp>(op, p); }

}  // namespace dsv31::inline v1::reference
