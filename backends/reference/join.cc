// Rows of several values side by side, each normalised by its own norm if it has one: out = [norm_p(x_p)].
#include <vector>

#include "backends/reference/norm.h"
#include "backends/reference/ops.h"

namespace dsv31::inline v1::reference {
namespace {

class JoinOp final : public RowsOp {
 public:
  JoinOp(const Join& op, const PrepareContext& p) : op_(op) {
    for (const Join::Part& part : op.parts) {
      parts_.push_back({part.x, p.graph->values[static_cast<std::size_t>(part.x)].width, RmsNorm(p, part.norm)});
      width_ += parts_.back().width;
    }
  }

 private:
  struct Part {
    ValueId x;
    std::int64_t width;
    RmsNorm norm;
  };
  std::int64_t scratch_doubles() const override { return width_; }
  void run_tile(int, const RunContext& c, Rows rows, Scratch scratch) const override {
    double* row = scratch.doubles(width_);
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      double* to = row;
      for (const Part& part : parts_) {
        std::copy_n(c.row(part.x, r, part.width), part.width, to);
        part.norm(to, part.width);
        to += part.width;
      }
      float* out = c.row(op_.out, r, width_);
      for (std::int64_t d = 0; d < width_; ++d) out[d] = static_cast<float>(row[d]);
    }
  }

  Join op_;
  std::vector<Part> parts_;
  std::int64_t width_ = 0;
};

}  // namespace

std::unique_ptr<PreparedOp> prepare_op(const Join& op, const PrepareContext& p) { return std::make_unique<JoinOp>(op, p); }

}  // namespace dsv31::inline v1::reference
