// One or more projections of the same input: out_p = residual + post_norm(W_p norm(x) + bias_p).
#include <vector>

#include "backends/reference/gated_unit.h"
#include "backends/reference/norm.h"
#include "backends/reference/ops.h"

namespace dsv31::inline v1::reference {
namespace {

class LinearOp final : public RowsOp {
 public:
  LinearOp(const Linear& op, const PrepareContext& p) : op_(op), norm_(p, op.norm), post_norm_(p, op.post_norm) {
    for (const Linear::Part& part : op.parts) {
      parts_.push_back({matrix_of(p, part.weight), vector_of(p, part.bias), part.out});
      in_features_ = parts_.back().weight.desc.cols;
      most_out_features_ = std::max(most_out_features_, parts_.back().weight.desc.rows);
    }
  }

 private:
  struct Part {
    PackedMatrix weight;  // (out_features, in_features)
    const float* bias;    // (out_features) or null
    ValueId out;          // (n, out_features)
  };

  std::int64_t scratch_doubles() const override {
    return tile_doubles(in_features_) + tile_doubles(most_out_features_) + panel_doubles(in_features_);
  }
  void run_tile(int, const RunContext& c, Rows rows, Scratch scratch) const override {
    const Tile x = scratch.tile(rows.size(), in_features_);
    double* out_tile = scratch.doubles(tile_doubles(most_out_features_));
    double* panel = scratch.doubles(panel_doubles(in_features_));
    load_rows(c, op_.x, rows, x);
    norm_(x);
    for (const Part& part : parts_) {
      const Tile y{out_tile, rows.size(), part.weight.desc.rows};
      multiply(c, part.weight, 0, x, y, panel);
      add_bias(part.bias, y);
      post_norm_(y);
      store_sum(c, op_.residual, y, part.out, rows);
    }
  }

  Linear op_;
  RmsNorm norm_, post_norm_;
  std::vector<Part> parts_;
  std::int64_t in_features_ = 0, most_out_features_ = 0;
};

}  // namespace

std::unique_ptr<PreparedOp> prepare_op(const Linear& op, const PrepareContext& p) { return std::make_unique<LinearOp>(op, p); }

}  // namespace dsv31::inline v1::reference
