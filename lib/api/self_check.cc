#include "lib/api/self_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dsv31/quant.h"

namespace dsv31::inline v1 {
namespace {

// Something that a model of language has seen the like of: its activations are then those of real work.
constexpr std::string_view kText =
    "The river had risen in the night. When the miller came down at six, the lower meadow was a lake, and his three boats, which "
    "he "
    "had tied to the old willow, were turning slowly over what used to be the gate. He counted the sheep on the hill: 41, all of "
    "them. Then he lit the stove, put on water for the tea and sat down to write to his brother in the town.";

std::vector<Token> prompt_of(const Model& model, std::int64_t n) {
  const std::int64_t vocab = model.impl()->spec.graph.vocab_size;
  std::vector<Token> out;
  if (model.has_tokenizer()) out = model.tokenizer().encode(kText, {.bos = model.tokenizer().adds_bos()});
  const auto fits = [vocab](Token t) { return t >= 0 && t < vocab; };
  if (!std::all_of(out.begin(), out.end(), fits)) out.clear();
  const auto rest = spread_tokens(n, 1, vocab);
  while (static_cast<std::int64_t>(out.size()) < n) out.push_back(rest[out.size()]);
  out.resize(static_cast<std::size_t>(n));
  return out;
}

}  // namespace

void SelfCheck::check_cancel() const {
  if (options.cancel != nullptr && options.cancel->cancelled())
    throw Error(Code::cancelled, "model.self_check", "got a cancel request, expected to finish the check");
}

std::vector<Token> spread_tokens(std::int64_t n, std::int64_t salt, std::int64_t vocab_size) {
  std::vector<Token> out;
  for (std::int64_t i = 0; i < n; ++i) out.push_back(static_cast<Token>((i * 7919 + salt * 104729 + i * i) % vocab_size));
  return out;
}

void Closeness::add(double got_value, double want, double residual, double allowed) {
  const double d = std::abs(got_value - want);
  error += std::isnan(d) ? HUGE_VAL : std::pow(std::max(0.0, d - allowed), 2);
  size += (want - residual) * (want - residual);
  got += (got_value - residual) * (got_value - residual);
  dot += (got_value - residual) * (want - residual);
}
double Closeness::nmse() const { return size > 0 ? error / size : error == 0 ? 0 : HUGE_VAL; }
double Closeness::cosine() const { return size > 0 && got > 0 ? dot / std::sqrt(size * got) : size == got ? 1 : 0; }

void check_weights(SelfCheck& check) {
  const Graph& graph = check.graph();
  const sched::WeightSums& before = check.impl().sums;
  if (before.matrices.empty()) {
    check.report.left_out.push_back("checksums of the weights: none were taken when the model was opened");
    return;
  }
  const sched::WeightSums now = sched::sum_weights(graph, check.impl().weights.view(), check.team());
  std::size_t wrong = 0;
  const auto report = [&](std::string_view name, std::string types) {
    ++wrong;
    SelfCheckRow row{.check = "weights", .what = std::string(name), .types = std::move(types), .arithmetic = {}, .note = {}};
    row.note = "the weights in memory are not those that were loaded";
    check.report.rows.push_back(std::move(row));
  };
  for (std::size_t m = 0; m < now.matrices.size(); ++m)
    if (now.matrices[m] != before.matrices[m]) report(graph.matrices[m].name, std::string(format(graph.matrices[m].type).name));
  for (std::size_t v = 0; v < now.vectors.size(); ++v)
    if (now.vectors[v] != before.vectors[v]) report(check.impl().spec.vectors[v].name, "F32");
  if (wrong > 0) return;
  SelfCheckRow row{.check = "weights", .what = "checksums", .types = {}, .arithmetic = {}, .ok = true, .note = {}};
  row.note = fmt::format("{} matrices and {} vectors are those that were loaded", now.matrices.size(), now.vectors.size());
  check.report.rows.push_back(std::move(row));
}

OpWalk::OpWalk(const SelfCheck& check, Numerics numerics)
    : check_(check), engine_(engine_parts(check.impl())), lane_(engine_.lane(numerics)), timeline_(lane_.pool) {}
OpWalk::~OpWalk() { timeline_.clear(); }

void OpWalk::prefill(std::span<const Token> tokens) {
  if (tokens.empty()) return;
  timeline_.push(tokens);
  session::Engine::Item item;
  item.timeline = &timeline_;
  engine_.advance(lane_, {&item, 1}, 512, check_.options.cancel);
}

void OpWalk::visit(std::span<const Token> tokens, const Before& before) {
  const auto n = static_cast<std::int64_t>(tokens.size()), first = timeline_.cached();
  timeline_.push(tokens);
  timeline_.prepare(n, first);
  const SequenceRows rows = timeline_.rows(0, n);
  std::vector<std::int32_t> positions, sequence(tokens.size(), 0), wanted;
  for (std::int64_t r = 0; r < n; ++r) positions.push_back(static_cast<std::int32_t>(first + r));
  for (std::int64_t r = n <= sched::kLogitRows ? 0 : n - 1; r < n; ++r) wanted.push_back(static_cast<std::int32_t>(r));
  Step step;
  step.tokens = tokens;
  step.positions = positions;
  step.sequence_of_row = sequence;
  step.sequences = {&rows, 1};
  step.logit_rows = wanted;
  step.cache = lane_.pool.view();
  sched::Workspace workspace;
  workspace.reserve(lane_.program, n, check_.team(), check_.impl().runtime.impl()->accountant);
  workspace.visit(lane_.program, step, check_.team(), [&](std::size_t op) {
    check_.check_cancel();
    return before(op, [&] { return sched::capture(lane_.program, op, step, workspace); });
  });
}

SelfCheckReport Model::self_check(const SelfCheckOptions& options) const {
  if (options.tokens < 8 || options.tokens > 4096)
    throw Error(Code::argument, "self_check.tokens", fmt::format("got {}, expected 8 to 4096", options.tokens));
  if (options.weights < 0)
    throw Error(Code::argument, "self_check.weights", fmt::format("got {}, expected 0 or more", options.weights));
  SelfCheckReport report;
  SelfCheck check{*this, options, report, prompt_of(*this, std::min(options.tokens, impl_->spec.graph.context_length))};
  for (const auto part : {check_weights, check_kernels, check_ways, check_forms}) {
    check.check_cancel();
    part(check);
  }
  if (impl_->spec.graph.draft_begin != kNone)
    report.left_out.push_back("ops of the draft layer: its drafts are checked by the model whenever they are used");
  return report;
}

}  // namespace dsv31::inline v1
