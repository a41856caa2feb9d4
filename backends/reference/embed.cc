// out[r] = scale * weight[token[r]]: the row of the table that the token names.
#include <fmt/format.h>

#include "backends/reference/matrix.h"
#include "backends/reference/ops.h"
#include "dsv31/error.h"

namespace dsv31::inline v1::reference {
namespace {

class EmbedOp final : public RowsOp {
 public:
  EmbedOp(const Embed& op, const PrepareContext& p) : op_(op), weight_(matrix_of(p, op.weight)) {}

 private:
  std::int64_t scratch_doubles() const override { return 0; }
  void run_tile(int, const RunContext& c, Rows rows, Scratch) const override {
    const std::int64_t width = weight_.desc.cols;
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      const std::int32_t token = c.step->tokens[static_cast<std::size_t>(r)];
      if (token < 0 || token >= weight_.desc.rows)
        throw Error{Code::argument, "reference.embed", fmt::format("got token {}, expected one of {}", token, weight_.desc.rows)};
      float* out = c.row(op_.out, r, width);
      decode_row(weight_, 0, token, out);
      for (std::int64_t i = 0; i < width; ++i) out[i] *= op_.scale;
    }
  }

  Embed op_;
  PackedMatrix weight_;  // (vocab_size, hidden_size)
};

}  // namespace

std::unique_ptr<PreparedOp> prepare_op(const Embed& op, const PrepareContext& p) { return std::make_unique<EmbedOp>(op, p); }

}  // namespace dsv31::inline v1::reference
