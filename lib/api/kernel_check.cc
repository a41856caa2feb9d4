// Every op of the model as its own kernels compute it on the packed weights, against the reference on the weights as they stand
// in the files, both on the same inputs: what the op before it made of the prompt's last tokens. So an error shows in the op that
// makes it and does not add up.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "dsv31/quant.h"
#include "lib/api/self_check.h"
#include "lib/sched/source_op.h"

namespace dsv31::inline v1 {
namespace {

constexpr std::int64_t kRows = 4;       // of the step that is compared
constexpr double kInteger = 5e-4;       // limit of products with int8 activations
constexpr double kFloat = 1e-9;         // of all others
constexpr double kHalfStep = 0x1p-10;   // from one float16 to the next, relative
constexpr double kRoundings = 0x1p-23;  // two roundings to float32, relative
constexpr float kTie = 1e-5f;           // scores of a router that may go either way

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

std::string types_of(const Op& op, const Graph& graph) {
  std::set<std::string> names;
  for (const MatrixId m : graph::uses(op).matrices) names.insert(std::string(format(graph.matrices[at(m)].type).name));
  std::string out;
  for (const std::string& n : names) out += (out.empty() ? "" : "+") + n;
  return out;
}

bool integer_product(const Op& op, const Graph& graph, Numerics numerics) {
  if (numerics.exact || std::holds_alternative<Embed>(op) || std::holds_alternative<Gate>(op)) return false;
  const auto matrices = graph::uses(op).matrices;
  return std::any_of(matrices.begin(), matrices.end(), [&](MatrixId m) { return format(graph.matrices[at(m)].type).block > 1; });
}

ValueId residual_of(const Op& op) {
  if (auto* o = std::get_if<Linear>(&op)) return o->residual;
  if (auto* o = std::get_if<Experts>(&op)) return o->residual;
  if (auto* o = std::get_if<GatedFfn>(&op)) return o->residual;
  return kNone;
}

// Which ops are compared: the first of each kind and type and all experts, then others evenly until the weights are used up.
std::vector<bool> choose(const Graph& graph, std::int64_t weights) {
  const std::size_t n = graph.trunk_end();
  std::vector<bool> chosen(n, false);
  std::set<std::pair<std::string, std::string>> seen;
  std::int64_t rest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t cost = sched::part_weights(graph.ops[i], graph);
    chosen[i] = seen.emplace(op_name(graph.ops[i]), types_of(graph.ops[i], graph)).second ||
                std::holds_alternative<Experts>(graph.ops[i]) || cost == 0;
    (chosen[i] ? weights : rest) += chosen[i] ? -cost : cost;
  }
  const double share = rest > 0 ? std::max(0.0, static_cast<double>(weights) / static_cast<double>(rest)) : 1;
  double due = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (chosen[i]) continue;
    due += share;
    if (due < 1) continue;
    chosen[i] = true;
    due -= 1;
  }
  return chosen;
}

// The router's choice gives way to four experts, spread over all and over the rows.
void spread_experts(const Experts& op, std::int32_t layer, sched::OpInputs& in) {
  const auto experts = sched::checked_experts(op, layer);
  sched::Rows& ids = sched::find(in.values, op.ids);
  for (std::int64_t r = 0; r < in.rows(); ++r) {
    std::vector<std::int32_t> mine;
    for (std::int64_t j = 0; j < op.num_experts_per_tok; ++j) mine.push_back(experts[at(r + j) % experts.size()]);
    std::sort(mine.begin(), mine.end());
    for (std::size_t j = 0; j < mine.size(); ++j) ids.row(r)[j] = std::bit_cast<float>(mine[j]);
  }
}

struct Job {
  std::size_t op;
  sched::OpInputs in;
  sched::OpOutputs got;
};

class KernelCheck {
 public:
  KernelCheck(SelfCheck& check, Numerics numerics)
      : check_(check), numerics_(numerics), walk_(check, numerics), layers_(sched::layer_of_op(check.graph())) {
    parts_.graph = &check.graph();
    parts_.backends = &check.backends();
    parts_.placement = &check.impl().placement;
    parts_.weights = check.impl().weights.view();
    for (const auto& b : check.backends())
      if (b->name() == "reference") parts_.reference = b.get();
    parts_.accountant = check.impl().runtime.impl()->accountant;
    parts_.numerics = numerics;
    parts_.cache_type = walk_.program().cache_type();
  }

  void run() {
    const Graph& graph = check_.graph();
    const std::vector<bool> chosen = choose(graph, check_.options.weights);
    const std::span<const Token> tokens(check_.tokens);
    const std::size_t last = std::min<std::size_t>(tokens.size(), kRows);
    walk_.prefill(tokens.first(tokens.size() - last));
    std::vector<Job> jobs;
    walk_.visit(tokens.last(last), [&](std::size_t i, const auto& capture) {
      if (!chosen[i]) return true;
      Job job{i, capture(), {}};
      if (auto* experts = std::get_if<Experts>(&graph.ops[i])) spread_experts(*experts, layers_[i], job.in);
      job.got = sched::run_alone(walk_.program().op(i), job.in, sched::writes_of(graph.ops[i], graph), &check_.team());
      jobs.push_back(std::move(job));
      return true;
    });
    compare_all(jobs);
    left_out(chosen);
  }

 private:
  // The reference runs on one thread an op; the ops are shared by the workers.
  void compare_all(const std::vector<Job>& jobs) {
    struct Work final : sched::Team::Work {
      const KernelCheck* self;
      const std::vector<Job>* jobs;
      std::vector<SelfCheckRow> rows;
      std::atomic<std::size_t> next{0};
      std::int64_t phases() const override { return 1; }
      bool between(std::int64_t) override { return false; }
      void run(std::int64_t, int) override {
        for (std::size_t i = next.fetch_add(1); i < jobs->size(); i = next.fetch_add(1)) {
          self->check_.check_cancel();
          rows[i] = self->compare((*jobs)[i]);
        }
      }
    } work;
    work.self = this;
    work.jobs = &jobs;
    work.rows.resize(jobs.size());
    check_.team().execute(work);
    for (SelfCheckRow& row : work.rows) check_.report.rows.push_back(std::move(row));
  }

  SelfCheckRow compare(const Job& job) const {
    const Graph& graph = check_.graph();
    const Op& op = graph.ops[job.op];
    SelfCheckRow row;
    row.check = "kernel";
    row.what = op_name(op);
    row.types = types_of(op, graph);
    row.arithmetic = arithmetic(numerics_);
    row.layer = layers_[job.op];
    const bool half = parts_.cache_type == DType::f16;
    row.limit = integer_product(op, graph, numerics_)              ? kInteger
                : half && std::holds_alternative<MlaAttention>(op) ? kHalfStep * kHalfStep  // its keys may round either way
                                                                   : kFloat;
    const sched::SourceOp source(parts_, job.op, job.in);
    const sched::OpOutputs want = source.run(nullptr);
    if (auto* gate = std::get_if<Gate>(&op)) {
      compare_routes(*gate, job, want, row);
    } else if (auto* index = std::get_if<SparseIndex>(&op)) {
      compare_selected(*index, job, want, row);
    } else {
      const ValueId residual = residual_of(op);
      const sched::Rows* add = residual == kNone ? nullptr : &sched::find(job.in.values, residual);
      Closeness c;  // of all that the op makes
      for (const sched::Slice& slice : source.slices()) {
        note(slice, graph, row);
        add_slice(slice, sched::find(job.got.values, slice.value), sched::find(want.values, slice.made), add, c);
      }
      worst(c, row);
    }
    if (job.in.layer >= 0) worst(closeness_of_cache(job, want), row, kFloat);
    if (auto* experts = std::get_if<Experts>(&op))
      row.note = fmt::format("{} of {} experts", sched::checked_experts(*experts, row.layer).size(), experts->n_routed_experts);
    return row;
  }

  static void note(const sched::Slice& slice, const Graph& graph, SelfCheckRow& row) {
    const std::int64_t all = graph.values[at(slice.value)].width;
    if (!slice.columns.empty() && slice.width < all) row.note = fmt::format("{} of {} rows", slice.width, all);
  }

  static void add_slice(const sched::Slice& slice, const sched::Rows& got, const sched::Rows& want, const sched::Rows* add,
                        Closeness& c) {
    for (std::int64_t r = 0; r < want.rows(); ++r)
      for (std::int64_t i = 0; i < slice.width; ++i) {
        const std::int64_t column = slice.columns.empty() ? i : slice.columns[at(i)];
        const double y = static_cast<double>(want.row(r)[i]);
        if (add == nullptr)
          c.add(static_cast<double>(got.row(r)[column]), y, 0, 0);
        else  // the sum is stored in float32, however small what was added
          c.add(static_cast<double>(got.row(r)[column]), y, static_cast<double>(add->row(r)[column]), kRoundings * std::abs(y));
      }
  }

  // What the op wrote; a float16 may be the neighbour.
  Closeness closeness_of_cache(const Job& job, const sched::OpOutputs& want) const {
    Closeness c;
    const bool half = job.in.cache_type == DType::f16;
    const std::size_t size = half ? 2 : 4;
    const auto number = [&](const std::vector<std::byte>& bytes, std::size_t i) {
      float x = 0;
      std::uint16_t h = 0;
      if (!half) return std::memcpy(&x, bytes.data() + i, 4), static_cast<double>(x);
      return std::memcpy(&h, bytes.data() + i, 2), static_cast<double>(f16_to_f32(h));
    };
    for (std::size_t i = 0; i + size <= want.cache.size(); i += size) {
      const auto same = [&](const std::vector<std::byte>& bytes) {
        return std::memcmp(bytes.data() + i, job.in.cache.data() + i, size) == 0;
      };
      if (same(want.cache) && same(job.got.cache)) continue;
      const double y = number(want.cache, i);
      c.add(number(job.got.cache, i), y, 0, half ? kHalfStep * std::abs(y) + 0x1p-24 : 0);
    }
    return c;
  }

  void worst(const Closeness& c, SelfCheckRow& row, double limit = 0) const {
    const double part = limit > 0 ? c.nmse() * row.limit / limit : c.nmse();
    if (!(part <= row.nmse)) row.nmse = part;
    row.cosine = std::min(row.cosine, c.cosine());
    row.ok = row.nmse <= row.limit;
  }

  // The weights of all experts of a row, zeros where it does not go: the order of ids and their number are part of it.
  static void spread_route(const sched::OpOutputs& out, const Gate& gate, std::int64_t r, std::vector<double>& weights) {
    weights.assign(at(gate.n_routed_experts), 0);
    for (std::int64_t j = 0; j < gate.num_experts_per_tok; ++j) {
      const auto e = std::bit_cast<std::int32_t>(sched::find(out.values, gate.ids).row(r)[j]);
      if (e >= 0 && e < gate.n_routed_experts)
        weights[at(e)] = static_cast<double>(sched::find(out.values, gate.weights).row(r)[j]);
    }
  }

  void compare_routes(const Gate& gate, const Job& job, const sched::OpOutputs& want, SelfCheckRow& row) const {
    Closeness c;
    std::vector<double> mine, theirs;
    for (std::int64_t r = 0; r < job.in.rows(); ++r) {
      const float* ids = sched::find(job.got.values, gate.ids).row(r);
      spread_route(job.got, gate, r, mine);
      spread_route(want, gate, r, theirs);
      if (std::memcmp(ids, sched::find(want.values, gate.ids).row(r), at(gate.num_experts_per_tok) * sizeof(float)) != 0) {
        // Other experts are right only where their scores are as good: a nudge of their bias makes the reference take them.
        std::vector<float> nudge(at(gate.n_routed_experts), 0);
        for (std::int64_t j = 0; j < gate.num_experts_per_tok; ++j) {
          const auto e = std::bit_cast<std::int32_t>(ids[j]);
          if (e >= 0 && e < gate.n_routed_experts) nudge[at(e)] = kTie;
        }
        spread_route(sched::SourceOp(parts_, job.op, job.in, &nudge).run(nullptr), gate, r, theirs);
      }
      for (std::size_t e = 0; e < mine.size(); ++e) c.add(mine[e], theirs[e], 0, 0);
    }
    worst(c, row);
  }

  static void compare_selected(const SparseIndex& index, const Job& job, const sched::OpOutputs& want, SelfCheckRow& row) {
    const sched::Rows &mine = sched::find(job.got.values, index.selected), &theirs = sched::find(want.values, index.selected);
    std::int64_t other = 0;
    for (std::int64_t r = 0; r < job.in.rows(); ++r)
      other += std::memcmp(mine.row(r), theirs.row(r), at(index.index_topk) * sizeof(float)) != 0;
    row.ok = other == 0;
    row.nmse = other == 0 ? 0 : HUGE_VAL;
    if (other > 0) row.note = fmt::format("{} of {} rows select other keys", other, job.in.rows());
  }

  void left_out(const std::vector<bool>& chosen) {
    std::map<std::string, std::pair<std::int64_t, std::int64_t>> counts;  // by op: left out, of
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      auto& [out, of] = counts[op_name(check_.graph().ops[i])];
      out += chosen[i] ? 0 : 1;
      ++of;
    }
    for (const auto& [name, n] : counts)
      if (n.first > 0)
        check_.report.left_out.push_back(fmt::format("{} of {} ops '{}' in {} arithmetic: SelfCheckOptions::weights", n.first,
                                                     n.second, name, arithmetic(numerics_)));
  }

  SelfCheck& check_;
  Numerics numerics_;
  OpWalk walk_;
  std::vector<std::int32_t> layers_;
  sched::SourceParts parts_;
};

}  // namespace

void check_kernels(SelfCheck& check) {
  for (const Numerics numerics : {Numerics{}, Numerics{.exact = true}}) KernelCheck(check, numerics).run();
}

}  // namespace dsv31::inline v1
