// The experts of a mixture: out = residual + (sum over the row's experts e, ascending, of w_e E_e(norm(x)) + E_shared(norm(x))).
// The weight multiplies the expert's output; the shared expert has none.
#include <bit>

#include "backends/reference/gated_unit.h"
#include "backends/reference/norm.h"
#include "backends/reference/ops.h"

namespace dsv31::inline v1::reference {
namespace {

class ExpertsOp final : public RowsOp {
 public:
  ExpertsOp(const Experts& op, const PrepareContext& p)
      : op_(op),
        norm_(p, op.norm),
        routed_{
            .gate = matrix_of(p, op.gate), .up = matrix_of(p, op.up), .down = matrix_of(p, op.down), .activation = op.activation},
        shared_{.gate = matrix_of(p, op.shared_gate),
                .up = matrix_of(p, op.shared_up),
                .down = matrix_of(p, op.shared_down),
                .activation = op.activation} {}

 private:
  std::int64_t hidden_size() const { return routed_.down.desc.rows; }
  std::int64_t scratch_doubles() const override {
    return 4 * tile_doubles(hidden_size()) + std::max(routed_.scratch_doubles(), shared_.scratch_doubles());
  }
  void run_tile(int, const RunContext& c, Rows rows, Scratch scratch) const override {
    const std::int64_t hidden = hidden_size(), k = op_.num_experts_per_tok;
    const Tile x = scratch.tile(rows.size(), hidden), sum = scratch.tile(rows.size(), hidden);
    Tile chosen = scratch.tile(0, hidden), y = scratch.tile(0, hidden);  // the rows of one expert, and what it made of them
    load_rows(c, op_.x, rows, x);
    norm_(x);
    for (std::int64_t i = 0; i < rows.size(); ++i) std::fill_n(sum.row(i), hidden, 0.0);
    for (std::int64_t e = 0; e < op_.n_routed_experts && !c.stopped(); ++e) {
      std::int64_t owner[kTile] = {};
      float weight[kTile] = {};
      chosen.m = 0;
      for (std::int64_t i = 0; i < rows.size(); ++i)
        for (std::int64_t j = 0; j < k; ++j) {
          if (std::bit_cast<std::int32_t>(c.row(op_.ids, rows.begin + i, k)[j]) != e) continue;
          owner[chosen.m] = i;
          weight[chosen.m] = c.row(op_.weights, rows.begin + i, k)[j];
          std::copy_n(x.row(i), hidden, chosen.row(chosen.m++));
          break;
        }
      if (chosen.m == 0) continue;
      y.m = chosen.m;
      routed_.run(c, e, chosen, y, scratch);
      for (std::int64_t i = 0; i < y.m; ++i)
        for (std::int64_t d = 0; d < hidden; ++d) sum.row(owner[i])[d] += static_cast<double>(weight[i]) * y.row(i)[d];
    }
    if (op_.shared_gate != kNone) {
      y.m = x.m;
      shared_.run(c, 0, x, y, scratch);
      for (std::int64_t i = 0; i < y.m; ++i)
        for (std::int64_t d = 0; d < hidden; ++d) sum.row(i)[d] += y.row(i)[d];
    }
    store_sum(c, op_.residual, sum, op_.out, rows);
  }

  Experts op_;
  RmsNorm norm_;
  GatedUnit routed_, shared_;
};

}  // namespace

std::unique_ptr<PreparedOp> prepare_op(const Experts& op, const PrepareContext& p) { return std::make_unique<ExpertsOp>(op, p); }

}  // namespace dsv31::inline v1::reference
