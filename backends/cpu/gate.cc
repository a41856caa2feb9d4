// The router of a mixture of experts, in float32. Few rows: the scores of all experts are products shared out strip by strip,
// then a phase selects. Many rows: a worker takes a few rows through norm, scores and selection alone, in one phase. Ties go to
// the lowest index.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "backends/cpu/op.h"
#include "backends/cpu/ops.h"
#include "dsv31/error.h"

namespace dsv31::inline v1::cpu {
namespace {

constexpr std::int64_t kRows = 32;  // rows that a worker takes at a time when they are many

class GateOp final : public CpuOp {
 public:
  GateOp(const Gate& op, const OpContext& context)
      : CpuOp(context),
        op_(op),
        weight_(bind(context, op.weight, true)),
        bias_(vector_of(context.prepare, op.bias)),
        norm_weight_(vector_of(context.prepare, op.norm.weight)) {
    const std::int64_t experts = op.n_routed_experts, groups = grouped() ? op.n_group : 1, kept = grouped() ? op.topk_group : 1;
    const bool whole = experts > 0 && groups > 0 && kept > 0 && kept <= groups && experts % groups == 0;
    if (!whole || op.num_experts_per_tok <= 0 || op.num_experts_per_tok > experts / groups * kept)
      throw Error{Code::argument, "cpu.gate",
                  fmt::format("got {} of {} experts from {} of {} groups, expected enough experts in the groups kept",
                              op.num_experts_per_tok, experts, kept, groups)};
    use(weight_);
  }

  int phases(const Step& step) const override { return step.rows() <= few() ? 2 : 1; }
  void run(int phase, const RunContext& c) const override {
    const std::int64_t n = c.step->rows();
    Areas area = areas(c, n);
    const Scratch s = place(area.shared, area.own, n);
    if (n > few()) {
      for (std::int64_t r = c.take(kRows); r < n && !c.stopped(); r = c.take(kRows)) {
        const std::int64_t m = std::min(kRows, n - r);
        const Activations x = normed(c, s, r, m);
        for (std::int64_t strip = 0; strip < weight_.strips() && !c.stopped(); strip += kPanelStrips)
          scores(s, x, strip, std::min(strip + kPanelStrips, weight_.strips()), m);
        for (std::int64_t i = 0; i < m; ++i) select(c, s, r + i, s.logits + i * experts_stride());
      }
    } else if (phase == 0) {
      const Activations x = normed(c, s, 0, n);
      const std::int64_t strips = item_strips(weight_.strips(), c.workers);
      for (std::int64_t i = c.take(strips); i < weight_.strips() && !c.stopped(); i = c.take(strips))
        scores(s, x, i, std::min(i + strips, weight_.strips()), n);
    } else {
      for (std::int64_t r = c.take(1); r < n && !c.stopped(); r = c.take(1)) select(c, s, r, s.logits + r * experts_stride());
    }
  }

 private:
  struct Scratch {
    float* x;               // (rows, row_stride(hidden_size)): normalised
    float* logits;          // (rows, row_stride(n_routed_experts)): shared when the rows are few
    float *choice, *group;  // (n_routed_experts): p + bias, and the score of each group
    std::uint8_t* state;    // (n_routed_experts)
    std::byte* kernel;
  };
  bool grouped() const { return op_.group_score != GroupScore::none; }
  std::int64_t hidden_size() const { return weight_.w.desc.cols; }
  std::int64_t experts_stride() const { return row_stride(op_.n_routed_experts); }
  std::int64_t few() const override { return few_rows(hidden_size()); }
  void measure(Area& shared, Area& own, std::int64_t n) const override { place(shared, own, n); }
  Scratch place(Area& shared, Area& own, std::int64_t n) const {
    const std::int64_t rows = n > few() ? kRows : n;
    Scratch s{};
    s.x = own.take<float>(rows * row_stride(hidden_size()));
    s.logits = (n > few() ? own : shared).take<float>(rows * experts_stride());
    s.choice = own.take<float>(op_.n_routed_experts);
    s.group = own.take<float>(op_.n_routed_experts);
    s.state = own.take<std::uint8_t>(op_.n_routed_experts);
    s.kernel = own.take<std::byte>(static_cast<std::int64_t>(weight_.scratch_bytes()));
    return s;
  }

  Activations normed(const RunContext& c, const Scratch& s, std::int64_t begin, std::int64_t m) const {
    Activations x = {.form = Form::f32,
                     .cols = hidden_size(),
                     .f32 = c.row(op_.x, begin, hidden_size()),
                     .f32_stride = row_stride(hidden_size())};
    if (op_.norm.weight == kNone) return x;
    for (std::int64_t i = 0; i < m; ++i)
      rows().rms_norm(x.f32 + i * x.f32_stride, norm_weight_, op_.norm.eps, hidden_size(), s.x + i * x.f32_stride);
    x.f32 = s.x;
    return x;
  }

  void scores(const Scratch& s, const Activations& x, std::int64_t strip_begin, std::int64_t strip_end, std::int64_t m) const {
    weight_.kernel->run({.w = &weight_.w,
                         .strip_begin = strip_begin,
                         .strip_end = strip_end,
                         .x = &x,
                         .m = m,
                         .out = s.logits + strip_begin * kStrip,
                         .ld = experts_stride(),
                         .scratch = s.kernel});
  }

  enum State : std::uint8_t { closed, open, chosen };
  // The lowest index of the largest score (n) among those that are open.
  static std::int64_t best(const float* score, const std::uint8_t* state, std::int64_t n) {
    std::int64_t b = -1;
    for (std::int64_t i = 0; i < n; ++i)
      if (state[i] == open && (b < 0 || score[i] > score[b])) b = i;
    return b;
  }

  // p (n_routed_experts): logits, overwritten.
  void select(const RunContext& c, const Scratch& s, std::int64_t r, float* p) const {
    const std::int64_t experts = op_.n_routed_experts, k = op_.num_experts_per_tok;
    if (op_.scoring == Scoring::softmax)
      rows().softmax(experts, p);
    else
      rows().sigmoid(experts, p);
    for (std::int64_t e = 0; e < experts; ++e) s.choice[e] = bias_ == nullptr ? p[e] : p[e] + bias_[e];
    std::fill_n(s.state, experts, open);
    if (grouped()) keep_best_groups(s);
    for (std::int64_t j = 0; j < k; ++j) s.state[best(s.choice, s.state, experts)] = chosen;
    float sum = 0;
    for (std::int64_t e = 0; e < experts; ++e)
      if (s.state[e] == chosen) sum += p[e];
    float* ids = c.row(op_.ids, r, k);
    float* weights = c.row(op_.weights, r, k);
    for (std::int64_t e = 0; e < experts; ++e) {
      if (s.state[e] != chosen) continue;
      *ids++ = std::bit_cast<float>(static_cast<std::int32_t>(e));
      *weights++ = (op_.norm_topk_prob ? p[e] / (sum + 1e-20f) : p[e]) * op_.routed_scaling_factor;
    }
  }

  // A group's score is its largest choice, or the sum of its two largest; experts outside the best groups are closed.
  void keep_best_groups(const Scratch& s) const {
    const std::int64_t size = op_.n_routed_experts / op_.n_group;
    for (std::int64_t g = 0; g < op_.n_group; ++g) {
      const float* choice = s.choice + g * size;
      std::int64_t first = 0, second = -1;
      for (std::int64_t e = 1; e < size; ++e) {
        if (choice[e] > choice[first]) {
          second = first;
          first = e;
        } else if (second < 0 || choice[e] > choice[second]) {
          second = e;
        }
      }
      s.group[g] = op_.group_score == GroupScore::top2_sum && second >= 0 ? choice[first] + choice[second] : choice[first];
    }
    // The first n_group entries of state serve for the groups, then are spread over the experts from the end.
    for (std::int64_t j = 0; j < op_.topk_group; ++j) s.state[best(s.group, s.state, op_.n_group)] = chosen;
    for (std::int64_t g = op_.n_group - 1; g >= 0; --g) {
      const std::uint8_t kept = s.state[g] == chosen ? open : closed;
      std::fill_n(s.state + g * size, size, kept);
    }
  }

  Gate op_;
  Matrix weight_;             // (n_routed_experts, hidden_size)
  const float* bias_;         // (n_routed_experts) or null
  const float* norm_weight_;  // (hidden_size) or null
};

}  // namespace

std::unique_ptr<PreparedOp> prepare_gate(const Gate& op, const PrepareContext& context, const KernelTable& kernels, Isa isa) {
  return std::make_unique<GateOp>(op, OpContext{context, kernels, isa});
}

}  // namespace dsv31::inline v1::cpu
