// Forms of attention that must agree: latent attention expanded to keys and values against the absorbed form, and sparse against
// dense attention where the row sees no more keys than it may select.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "lib/api/self_check.h"

namespace dsv31::inline v1 {
namespace {

constexpr double kExpanded = 1e-10;          // NMSE of expanded against absorbed latent attention, both in float32
constexpr std::int64_t kExpandedRows = 256;  // enough for the expanded form to be taken
constexpr double kFormProducts = 4e9;        // multiplications spent on the way to the layers compared, about

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

bool has(const Graph& graph, bool sparse) {
  for (std::size_t i = 0; i < graph.trunk_end(); ++i)
    if (auto* mla = std::get_if<MlaAttention>(&graph.ops[i]); mla != nullptr && (mla->selected != kNone) == sparse) return true;
  return false;
}

// Counts what computing the ops of a walk costs and ends it when it was enough.
class Cost {
 public:
  Cost(const Graph& graph, std::int64_t rows) : graph_(graph), rows_(static_cast<double>(rows)) {}
  bool more(std::size_t op) {
    for (const MatrixId m : graph::uses(graph_.ops[op]).matrices) {
      const MatrixDesc& d = graph_.matrices[at(m)];
      double share = 1;
      if (auto* x = std::get_if<Experts>(&graph_.ops[op]); x != nullptr && d.count > 1)
        share = static_cast<double>(x->num_experts_per_tok) / static_cast<double>(x->n_routed_experts);
      spent_ += rows_ * share * static_cast<double>(d.count * d.rows * d.cols);
    }
    return spent_ < kFormProducts;
  }

 private:
  const Graph& graph_;
  double rows_, spent_ = 0;
};

SelfCheckRow form_row(const char* check, const SelfCheck& of, std::size_t op, Numerics numerics) {
  SelfCheckRow row;
  row.check = check;
  row.what = op_name(of.graph().ops[op]);
  row.arithmetic = arithmetic(numerics);
  row.layer = sched::layer_of_op(of.graph())[op];
  return row;
}

void check_expanded(SelfCheck& check) {
  const Graph& graph = check.graph();
  if (graph.context_length < kExpandedRows) {
    check.report.left_out.push_back(fmt::format("expanded latent attention: it takes {} tokens in a step", kExpandedRows));
    return;
  }
  const Numerics numerics{.exact = true};
  OpWalk walk(check, numerics);
  const sched::Program& relaxed = walk.program({.exact = true, .relaxed = true});
  Cost cost(graph, kExpandedRows);
  bool taken = false;
  walk.visit(spread_tokens(kExpandedRows, 5, graph.vocab_size), [&](std::size_t i, const auto& capture) {
    auto* mla = std::get_if<MlaAttention>(&graph.ops[i]);
    if (mla == nullptr) return cost.more(i) || !taken;
    const sched::OpInputs in = capture();
    const auto writes = sched::writes_of(graph.ops[i], graph);
    const auto absorbed = sched::run_alone(walk.program().op(i), in, writes, &check.team());
    const auto expanded = sched::run_alone(relaxed.op(i), in, writes, &check.team());
    const sched::Rows &want = sched::find(absorbed.values, mla->out), &got = sched::find(expanded.values, mla->out);
    Closeness c;
    for (std::int64_t r = 0; r < want.rows(); ++r)
      for (std::int64_t k = 0; k < want.width(); ++k)
        c.add(static_cast<double>(got.row(r)[k]), static_cast<double>(want.row(r)[k]), 0, 0);
    taken = true;
    SelfCheckRow row = form_row("expanded", check, i, numerics);
    row.nmse = c.nmse();
    row.cosine = c.cosine();
    row.limit = kExpanded;
    row.ok = row.nmse <= row.limit;
    if (row.nmse == 0) row.note = "the same bits: this backend has no expanded form";
    check.report.rows.push_back(std::move(row));
    return cost.more(i);
  });
}

void check_sparse(SelfCheck& check) {
  const Graph& graph = check.graph();
  const Numerics numerics{};
  OpWalk walk(check, numerics);
  std::int64_t topk = graph.context_length;
  for (std::size_t i = 0; i < graph.trunk_end(); ++i)
    if (auto* index = std::get_if<SparseIndex>(&graph.ops[i])) topk = std::min(topk, index->index_topk);
  const std::span<const Token> tokens(check.tokens);
  const std::size_t n = std::min(tokens.size(), at(topk));
  Cost cost(graph, static_cast<std::int64_t>(n));
  bool taken = false;
  walk.visit(tokens.first(n), [&](std::size_t i, const auto& capture) {
    auto* mla = std::get_if<MlaAttention>(&graph.ops[i]);
    if (mla == nullptr || mla->selected == kNone) return cost.more(i) || !taken;
    const sched::OpInputs in = capture();
    const auto writes = sched::writes_of(graph.ops[i], graph);
    const sched::WeightView weights = check.impl().weights.view();
    MlaAttention dense = *mla;
    dense.selected = kNone;
    const auto prepared = check.backends()[at(walk.program().placement().backend[i])]->prepare(
        dense, {&graph, weights.matrices, weights.vectors, numerics, walk.program().cache_type()});
    const auto got = sched::run_alone(walk.program().op(i), in, writes, &check.team()),
               want = sched::run_alone(*prepared, in, writes, &check.team());
    SelfCheckRow row = form_row("sparse", check, i, numerics);
    row.ok = true;
    const sched::Rows &a = sched::find(got.values, mla->out), &b = sched::find(want.values, mla->out);
    for (std::int64_t r = 0; r < a.rows() && row.ok; ++r)
      if (std::memcmp(a.row(r), b.row(r), at(a.width()) * sizeof(float)) != 0) {
        row.ok = false;
        row.note = fmt::format("sparse differs from dense attention first at token {} of {} keys", r, topk);
      }
    if (row.ok) row.note = fmt::format("{} tokens, {} keys a row", n, topk);
    taken = true;
    check.report.rows.push_back(std::move(row));
    return cost.more(i);
  });
}

}  // namespace

void check_forms(SelfCheck& check) {
  if (has(check.graph(), false))
    check_expanded(check);
  else
    check.report.left_out.push_back("expanded against absorbed latent attention: the model has none that is dense");
  if (has(check.graph(), true))
    check_sparse(check);
  else
    check.report.left_out.push_back("sparse against dense attention: the model has none that is sparse");
}

}  // namespace dsv31::inline v1
