#include "lib/sched/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "dsv31/error.h"

namespace dsv31::inline v1::sched {

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
  bool between(std::int64_t) override {
    cursor.store(0, std::memory_order_relaxed);
    return base.stopped();
  }
};

void Workspace::run(const Program& program, const Step& step, Team& team, const CancelToken* cancel, const LogitSink& sink,
                    Section section) {
  if (program_ != &program || rows_ < step.rows()) throw Error(Code::argument, "workspace", "got more rows than were reserved");
  Walk walk;
  walk.program = &program;
  walk.order = &order_;
  Step part = step;  // its logit rows change from batch to batch
  walk.base.step = &part;
  walk.base.values = values_.data();
  walk.base.scratch = scratch_.data();
  walk.base.workers = team.size();
  walk.base.cursor = &walk.cursor;
  walk.base.stop = &walk.stop;
  walk.base.cancel = cancel ? &cancel->flag() : nullptr;

  const Graph& graph = program.graph();
  const bool draft = section == Section::draft;
  const std::size_t begin = draft ? graph.trunk_end() : 0, head = (draft ? graph.ops.size() : graph.trunk_end()) - 1;
  const std::int64_t width = graph.vocab_size, stride = row_stride(width);
  const float* logits = value(draft ? graph.draft_logits : graph.logits);
  std::size_t done = 0;
  last_phases_ = 0;
  do {
    std::size_t batch = std::min<std::size_t>(step.logit_rows.size() - done, static_cast<std::size_t>(kLogitRows));
    part.logit_rows = step.logit_rows.subspan(done, batch);
    order_.clear();
    for (std::size_t i = done == 0 ? begin : head; i <= head; ++i) {
      if (i == head && batch == 0) break;
      for (int p = 0, n = program.op(i).phases(part); p < n; ++p) order_.emplace_back(i, p);
    }
    walk.cursor.store(0, std::memory_order_relaxed);
    team.execute(walk);
    last_phases_ += walk.phases();
    if (walk.stop.load(std::memory_order_relaxed))
      throw Error(Code::cancelled, "session.step", "got a cancel request, expected to finish the step");
    if (batch > 0) sink(part.logit_rows, std::span<const float>(logits, batch * static_cast<std::size_t>(stride)), stride);
    done += batch;
  } while (done < step.logit_rows.size());
}

}  // namespace dsv31::inline v1::sched
