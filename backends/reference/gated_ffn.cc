// The feed-forward half of a dense layer: out = residual + post_norm(unit(norm(x))), the unit being that of gated_unit.h.
#include "backends/reference/gated_unit.h"
#include "backends/reference/norm.h"
#include "backends/reference/ops.h"

namespace dsv31::inline v1::reference {
namespace {

class GatedFfnOp final : public RowsOp {
 public:
  GatedFfnOp(const GatedFfn& op, const PrepareContext& p)
      : op_(op),
        norm_(p, op.norm),
        post_norm_(p, op.post_norm),
        unit_{.gate = matrix_of(p, op.gate),
              .up = matrix_of(p, op.up),
              .down = matrix_of(p, op.down),
              .gate_bias = vector_of(p, op.gate_bias),
              .up_bias = vector_of(p, op.up_bias),
              .down_bias = vector_of(p, op.down_bias),
              .activation = op.activation} {}

 private:
  std::int64_t scratch_doubles() const override {
    return tile_doubles(unit_.gate.desc.cols) + tile_doubles(unit_.down.desc.rows) + unit_.scratch_doubles();
  }
  void run_tile(int, const RunContext& c, Rows rows, Scratch scratch) const override {
    const Tile x = scratch.tile(rows.size(), unit_.gate.desc.cols), y = scratch.tile(rows.size(), unit_.down.desc.rows);
    load_rows(c, op_.x, rows, x);
    norm_(x);
    unit_.run(c, 0, x, y, scratch);
    post_norm_(y);
    store_sum(c, op_.residual, y, op_.out, rows);
  }

  GatedFfn op_;
  RmsNorm norm_, post_norm_;
  GatedUnit unit_;
};

}  // namespace

std::unique_ptr<PreparedOp> prepare_op(const GatedFfn& op, const PrepareContext& p) {
  return std::make_unique<GatedFfnOp>(op, p);
}

}  // namespace dsv31::inline v1::reference
