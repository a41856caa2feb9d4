// The router of a mixture of experts: which experts a token goes to, and with what weights (DeepSeek-V2 and -V3 papers).
// Scores are rounded to float32 at each step, as the router of the released models computes them: experts whose scores agree
// there are tied, and the lowest index wins.
#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "backends/reference/matrix.h"
#include "backends/reference/norm.h"
#include "backends/reference/ops.h"
#include "dsv31/error.h"

namespace dsv31::inline v1::reference {
namespace {

float rounded(double x) { return static_cast<float>(x); }

class GateOp final : public RowsOp {
 public:
  GateOp(const Gate& op, const PrepareContext& p)
      : op_(op), norm_(p, op.norm), weight_(matrix_of(p, op.weight)), bias_(vector_of(p, op.bias)) {
    const std::int64_t experts = op.n_routed_experts, groups = grouped() ? op.n_group : 1, kept = grouped() ? op.topk_group : 1;
    const bool whole = groups > 0 && kept > 0 && kept <= groups && experts > 0 && experts % groups == 0;
    if (!whole || op.num_experts_per_tok <= 0 || op.num_experts_per_tok > experts / groups * kept)
      throw Error{Code::argument, "reference.gate",
                  fmt::format("got {} of {} experts, {} of {} groups, expected enough experts in the groups kept",
                              op.num_experts_per_tok, experts, kept, groups)};
  }

 private:
  bool grouped() const { return op_.group_score != GroupScore::none; }
  std::int64_t scratch_doubles() const override {
    return tile_doubles(weight_.desc.cols) + tile_doubles(op_.n_routed_experts) + panel_doubles(weight_.desc.cols) +
           3 * row_stride(op_.n_routed_experts);
  }
  void run_tile(int, const RunContext& c, Rows rows, Scratch scratch) const override {
    const std::int64_t experts = op_.n_routed_experts, k = op_.num_experts_per_tok;
    const Tile x = scratch.tile(rows.size(), weight_.desc.cols), logits = scratch.tile(rows.size(), experts);
    double* panel = scratch.doubles(panel_doubles(weight_.desc.cols));
    double* choice = scratch.doubles(experts);  // p + bias
    double* group = scratch.doubles(experts);   // score of each group
    double* open = scratch.doubles(experts);    // 1 where an expert, or a group, may still be chosen
    load_rows(c, op_.x, rows, x);
    norm_(x);
    multiply(c, weight_, 0, x, logits, panel);
    for (std::int64_t i = 0; i < rows.size(); ++i) {
      double* p = logits.row(i);
      score(p);
      for (std::int64_t e = 0; e < experts; ++e)
        choice[e] = bias_ == nullptr ? p[e] : rounded(p[e] + static_cast<double>(bias_[e]));
      std::fill_n(open, experts, 1.0);
      if (grouped()) keep_best_groups(choice, group, open);
      for (std::int64_t j = 0; j < k; ++j) open[best(choice, open, experts)] = 2;  // 2: chosen
      double sum = 0;
      for (std::int64_t e = 0; e < experts; ++e)
        if (open[e] == 2) sum += p[e];
      float* ids = c.row(op_.ids, rows.begin + i, k);
      float* weights = c.row(op_.weights, rows.begin + i, k);
      for (std::int64_t e = 0; e < experts; ++e) {
        if (open[e] != 2) continue;
        const double w = op_.norm_topk_prob ? p[e] / (sum + 1e-20) : p[e];
        *ids++ = std::bit_cast<float>(static_cast<std::int32_t>(e));
        *weights++ = rounded(w * static_cast<double>(op_.routed_scaling_factor));
      }
    }
  }

  // p (n_routed_experts) = scoring(p), in place
  void score(double* p) const {
    const std::int64_t experts = op_.n_routed_experts;
    for (std::int64_t e = 0; e < experts; ++e) p[e] = rounded(p[e]);
    if (op_.scoring == Scoring::sigmoid) {
      for (std::int64_t e = 0; e < experts; ++e) p[e] = rounded(1 / (1 + std::exp(-p[e])));
      return;
    }
    const double max = *std::max_element(p, p + experts);
    double sum = 0;
    for (std::int64_t e = 0; e < experts; ++e) sum += std::exp(p[e] - max);
    for (std::int64_t e = 0; e < experts; ++e) p[e] = rounded(std::exp(p[e] - max) / sum);
  }

  // A group's score is its largest choice, or the sum of its two largest; open (n_routed_experts) becomes 0 outside the best
  // groups.
  void keep_best_groups(const double* choice, double* group, double* open) const {
    const std::int64_t size = op_.n_routed_experts / op_.n_group;
    for (std::int64_t g = 0; g < op_.n_group; ++g) {
      const double* c = choice + g * size;
      const std::int64_t first = std::max_element(c, c + size) - c;
      double second = 0;
      if (op_.group_score == GroupScore::top2_sum && size > 1) {
        second = c[first == 0 ? 1 : 0];
        for (std::int64_t e = 0; e < size; ++e)
          if (e != first) second = std::max(second, c[e]);
      }
      group[g] = rounded(c[first] + second);
    }
    for (std::int64_t j = 0; j < op_.topk_group; ++j) open[best(group, open, op_.n_group)] = 2;
    for (std::int64_t g = op_.n_group - 1; g >= 0; --g) std::fill_n(open + g * size, size, open[g] == 2 ? 1.0 : 0.0);
  }

  // The lowest index of the largest score (n) among those with open == 1.
  static std::int64_t best(const double* score, const double* open, std::int64_t n) {
    std::int64_t b = -1;
    for (std::int64_t i = 0; i < n; ++i)
      if (open[i] == 1 && (b < 0 || score[i] > score[b])) b = i;
    return b;
  }

  Gate op_;
  RmsNorm norm_;
  PackedMatrix weight_;  // (n_routed_experts, hidden_size)
  const float* bias_;    // (n_routed_experts) or null
};

}  // namespace

std::unique_ptr<PreparedOp> prepare_op(const Gate& op, const PrepareContext& p) { return std::make_unique<GateOp>(op, p); }

}  // namespace dsv31::inline v1::reference
