#include "lib/sched/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "dsv31/error.h"

namespace dsv31::inline v1::sched {
namespace {

// Whether rows of `width` floats hold neither infinities nor NaN: those have all bits of the exponent set.
bool finite_rows(const float* rows, std::int64_t n, std::int64_t width) noexcept {
  constexpr std::uint32_t kExponent = 0x7f800000;
  for (std::int64_t r = 0; r < n; ++r, rows += row_stride(width)) {
    std::uint32_t bad = 0;
    for (std::int64_t i = 0; i < width; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(rows[i]);
      bad |= (bits & kExponent) == kExponent ? 1u : 0u;
    }
    if (bad != 0) return false;
  }
  return true;
}

// What an op writes, ids left out: they are integers in the place of floats.
std::vector<ValueId> float_results(const Op& op) {
  std::vector<ValueId> out = graph::uses(op).writes;
  if (auto* gate = std::get_if<Gate>(&op)) std::erase(out, gate->ids);
  if (auto* index = std::get_if<SparseIndex>(&op)) std::erase(out, index->selected);
  return out;
}

}  // namespace

Program::Program(const Graph& graph, const BackendList& backends, Placement placement, WeightView weights, Numerics numerics,
                 DType cache_type)
    : graph_(&graph), placement_(std::move(placement)), cache_type_(cache_type) {
  PrepareContext context{&graph, weights.matrices, weights.vectors, numerics, cache_type};
  ops_.reserve(graph.ops.size());
  for (std::size_t i = 0; i < graph.ops.size(); ++i)
    ops_.push_back(backends[static_cast<std::size_t>(placement_.backend[i])]->prepare(graph.ops[i], context));
}

std::size_t Program::workspace_bytes(std::int64_t max_rows, int workers) const {
  std::size_t scratch = 0;
  for (auto& op : ops_) scratch = std::max(scratch, op->scratch_bytes(max_rows, workers));
  return graph::plan_arena(*graph_, max_rows, std::min(max_rows, kLogitRows)).bytes + scratch;
}

void Workspace::reserve(const Program& program, std::int64_t max_rows, const Team& team,
                        const std::shared_ptr<Accountant>& accountant) {
  if (program_ == &program && rows_ >= max_rows) return;
  if (program_ == &program) max_rows = std::max(max_rows, rows_);
  graph::ArenaPlan plan = graph::plan_arena(program.graph(), max_rows, std::min(max_rows, kLogitRows));
  std::size_t scratch = 0;
  for (auto& op : program.ops_) scratch = std::max(scratch, op->scratch_bytes(max_rows, team.size()));
  // What there is may serve; otherwise the new areas replace the old ones, which are let go first: the budget counts both.
  if (arena_.size() < plan.bytes || scratch_.size() < scratch) {
    program_ = nullptr;
    rows_ = 0;
    std::size_t arena_bytes = std::max(plan.bytes, arena_.size()), scratch_bytes = std::max(scratch, scratch_.size());
    arena_ = Buffer();
    scratch_ = Buffer();
    arena_ = accountant->allocate_zeroed(MemoryClass::scratch, arena_bytes, "session.scratch");
    scratch_ = accountant->allocate_zeroed(MemoryClass::scratch, scratch_bytes, "session.scratch");
  }
  values_.resize(program.graph().values.size());
  for (std::size_t v = 0; v < values_.size(); ++v) values_[v] = reinterpret_cast<float*>(arena_.data() + plan.offset[v]);
  program_ = &program;
  rows_ = max_rows;
}

// One region of phases: the body and the first batch of logits, or a further batch of logits.
struct Workspace::Walk final : Team::Work {
  const Program* program;
  const std::vector<std::pair<std::size_t, int>>* order;
  ExpertCount* experts = nullptr;
  RunContext base;
  alignas(64) std::atomic<std::int64_t> cursor{0};
  alignas(64) std::atomic<bool> stop{false};

  std::int64_t phases() const override { return static_cast<std::int64_t>(order->size()); }
  void run(std::int64_t phase, int worker) override {
    RunContext context = base;
    context.worker = worker;
    auto [op, op_phase] = (*order)[static_cast<std::size_t>(phase)];
    program->op(op).run(op_phase, context);
  }
  bool between(std::int64_t finished) override {
    cursor.store(0, std::memory_order_relaxed);
    if (base.stopped()) return true;
    if (experts != nullptr) {
      const auto next = static_cast<std::size_t>(finished) + 1, op = (*order)[next - 1].first;
      if (next == order->size() || (*order)[next].first != op) experts->see(op, base);
    }
    return false;
  }
};

void Workspace::prepare(Walk& walk, const Program& program, const Step& step, const Team& team, const CancelToken* cancel) {
  if (program_ != &program || rows_ < step.rows()) throw Error(Code::argument, "workspace", "got more rows than were reserved");
  walk.program = &program;
  walk.order = &order_;
  walk.base.step = &step;
  walk.base.values = values_.data();
  walk.base.scratch = scratch_.data();
  walk.base.workers = team.size();
  walk.base.cursor = &walk.cursor;
  walk.base.stop = &walk.stop;
  walk.base.cancel = cancel ? &cancel->flag() : nullptr;
}

void Workspace::visit(const Program& program, const Step& step, Team& team, const std::function<bool(std::size_t op)>& before) {
  Walk walk;
  prepare(walk, program, step, team, nullptr);
  for (std::size_t i = 0; i < program.graph().trunk_end() && before(i); ++i) execute(walk, program, i, i + 1, team);
}

// Runs ops [begin, end): none of its phases where there are none.
void Workspace::execute(Walk& walk, const Program& program, std::size_t begin, std::size_t end, Team& team) {
  order_.clear();
  for (std::size_t i = begin; i < end; ++i)
    for (int p = 0, n = program.op(i).phases(*walk.base.step); p < n; ++p) order_.emplace_back(i, p);
  walk.cursor.store(0, std::memory_order_relaxed);
  team.execute(walk);
  last_phases_ += walk.phases();
  if (walk.stop.load(std::memory_order_relaxed))
    throw Error(Code::cancelled, "session.step", "got a cancel request, expected to finish the step");
}

// Runs the step once more, an op at a time, for the first that makes something that is not finite.
void Workspace::blame(Walk& walk, const Program& program, std::size_t begin, std::size_t end, Team& team) {
  const Graph& graph = program.graph();
  if (begin > 0)  // what the draft layer read has been overwritten; but it is only one
    throw Error(
        Code::backend, "session.step",
        fmt::format("got a number that is not finite from the draft layer {}, expected finite ones", layer_of_op(graph)[begin]));
  walk.experts = nullptr;
  for (std::size_t i = begin; i < end; ++i) {
    execute(walk, program, i, i + 1, team);
    for (ValueId id : float_results(graph.ops[i])) {
      const ValueDesc& value_of = graph.values[static_cast<std::size_t>(id)];
      const auto rows = value_of.logits ? static_cast<std::int64_t>(walk.base.step->logit_rows.size()) : walk.base.step->rows();
      if (finite_rows(value(id), rows, value_of.width)) continue;
      const std::int32_t layer = layer_of_op(graph)[i];
      throw Error(Code::backend, "session.step",
                  fmt::format("got a number that is not finite from op '{}' {}, expected finite ones", op_name(graph.ops[i]),
                              layer < 0 ? "outside the layers" : fmt::format("of layer {}", layer)));
    }
  }
  throw Error(Code::backend, "session.step",
              "got a number that is not finite, and none when the step ran again, expected the same from both: faulty memory?");
}

void Workspace::run(const Program& program, const Step& step, Team& team, const CancelToken* cancel, const LogitSink& sink,
                    Section section) {
  Walk walk;
  Step part = step;  // its logit rows change from batch to batch
  prepare(walk, program, part, team, cancel);
  walk.experts = experts_;

  const Graph& graph = program.graph();
  const bool draft = section == Section::draft;
  const std::size_t begin = draft ? graph.trunk_end() : 0, head = (draft ? graph.ops.size() : graph.trunk_end()) - 1;
  const std::int64_t width = graph.vocab_size, stride = row_stride(width);
  const ValueId state = draft ? graph.draft_next : graph.hidden;
  const float* logits = value(draft ? graph.draft_logits : graph.logits);
  std::size_t done = 0;
  last_phases_ = 0;
  if (experts_ != nullptr) experts_->begin();
  do {
    std::size_t batch = std::min<std::size_t>(step.logit_rows.size() - done, static_cast<std::size_t>(kLogitRows));
    part.logit_rows = step.logit_rows.subspan(done, batch);
    const std::size_t first = done == 0 ? begin : head, end = batch == 0 ? head : head + 1;
    execute(walk, program, first, end, team);
    if (!(done > 0 || finite_rows(value(state), step.rows(), graph.hidden_size)) ||
        !finite_rows(logits, static_cast<std::int64_t>(batch), width))
      blame(walk, program, begin, end, team);
    if (batch > 0) sink(part.logit_rows, std::span<const float>(logits, batch * static_cast<std::size_t>(stride)), stride);
    done += batch;
  } while (done < step.logit_rows.size());
  if (experts_ != nullptr) experts_->commit();
}

}  // namespace dsv31::inline v1::sched
