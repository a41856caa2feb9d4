#include "lib/sched/op_probe.h"

#include <algorithm>
#include <cstring>

namespace dsv31::inline v1::sched {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// All phases of one prepared op.
struct Alone final : Team::Work {
  const PreparedOp* op;
  RunContext base;
  std::atomic<std::int64_t> cursor{0};
  std::atomic<bool> stop{false};

  std::int64_t phases() const override { return op->phases(*base.step); }
  bool between(std::int64_t) override {
    cursor.store(0, std::memory_order_relaxed);
    return false;
  }
  void run(std::int64_t phase, int worker) override {
    RunContext context = base;
    context.worker = worker;
    op->run(static_cast<int>(phase), context);
  }
};

}  // namespace

const Rows& find(const ValueRows& values, ValueId id) {
  return std::find_if(values.begin(), values.end(), [id](const auto& v) { return v.first == id; })->second;
}
Rows& find(ValueRows& values, ValueId id) {
  return std::find_if(values.begin(), values.end(), [id](const auto& v) { return v.first == id; })->second;
}

std::int32_t cache_layer(const Op& op) {
  if (auto* o = std::get_if<RopeCache>(&op)) return o->layer;
  if (auto* o = std::get_if<Attention>(&op)) return o->layer;
  if (auto* o = std::get_if<MlaAttention>(&op)) return o->layer;
  if (auto* o = std::get_if<SparseIndex>(&op)) return o->layer;
  return -1;
}

std::vector<std::pair<ValueId, std::int64_t>> writes_of(const Op& op, const Graph& graph) {
  std::vector<std::pair<ValueId, std::int64_t>> out;
  for (const ValueId id : graph::uses(op).writes) out.emplace_back(id, graph.values[at(id)].width);
  return out;
}

OpInputs capture(const Program& program, std::size_t op, const Step& step, const Workspace& workspace) {
  const Graph& graph = program.graph();
  OpInputs in;
  in.op = op;
  in.tokens.assign(step.tokens.begin(), step.tokens.end());
  in.positions.assign(step.positions.begin(), step.positions.end());
  for (const ValueId id : graph::uses(graph.ops[op]).reads) {
    if (std::any_of(in.values.begin(), in.values.end(), [id](const auto& v) { return v.first == id; })) continue;
    const std::int64_t width = graph.values[at(id)].width;
    Rows rows(step.rows(), width);
    std::copy_n(workspace.value(id), step.rows() * row_stride(width), rows.data());
    in.values.emplace_back(id, std::move(rows));
  }
  in.layer = cache_layer(graph.ops[op]);
  if (in.layer < 0) return in;
  const SequenceRows& s = step.sequences[0];
  const bool window = graph.caches[at(in.layer)].window > 0;
  in.cache_type = step.cache.type;
  in.block_bytes = step.cache.layer_bytes[in.layer];
  const std::int64_t blocks = (s.position + s.rows + kBlock - 1) / kBlock;
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int32_t id = (window ? s.window_blocks : s.blocks)[b];
    in.table.push_back(id < 0 ? -1 : static_cast<std::int32_t>(in.cache.size() / in.block_bytes));
    if (id < 0) continue;
    const std::byte* block = step.cache.block(in.layer, id);
    in.cache.insert(in.cache.end(), block, block + in.block_bytes);
  }
  return in;
}

OpOutputs run_alone(const PreparedOp& prepared, const OpInputs& in, std::span<const std::pair<ValueId, std::int64_t>> writes,
                    Team* team) {
  // A value that is read and written stands in both lists; the op works on a copy of all.
  ValueRows values = in.values;
  ValueId most = 0;
  for (const auto& [id, width] : writes)
    if (std::none_of(values.begin(), values.end(), [i = id](const auto& v) { return v.first == i; }))
      values.emplace_back(id, Rows(in.rows(), width));
  for (const auto& v : values) most = std::max(most, v.first);
  std::vector<float*> table(at(most) + 1, nullptr);
  for (auto& [id, rows] : values) table[at(id)] = rows.data();

  const std::int64_t n = in.rows();
  std::vector<std::int32_t> all(at(n)), sequence(at(n), 0);
  for (std::int64_t r = 0; r < n; ++r) all[at(r)] = static_cast<std::int32_t>(r);
  std::vector<FloatLine> cache((in.cache.size() + sizeof(FloatLine) - 1) / sizeof(FloatLine));
  if (!in.cache.empty()) std::memcpy(cache.data(), in.cache.data(), in.cache.size());
  auto* slab = reinterpret_cast<std::byte*>(cache.data());
  const std::vector<std::size_t> offsets(at(in.layer + 1), 0), bytes(at(in.layer + 1), in.block_bytes);
  const SequenceRows rows{0, n, in.positions[0], in.table.data(), in.table.data()};
  Step step;
  step.tokens = in.tokens;
  step.positions = in.positions;
  step.sequence_of_row = sequence;
  step.sequences = {&rows, 1};
  step.logit_rows = all;
  step.cache = {in.cache_type, &slab, static_cast<std::int32_t>(std::max<std::size_t>(in.table.size(), 1)), offsets.data(),
                bytes.data()};

  const int workers = team == nullptr ? 1 : team->size();
  std::vector<FloatLine> scratch(prepared.scratch_bytes(n, workers) / sizeof(FloatLine) + 1);
  Alone work;
  work.op = &prepared;
  work.base.step = &step;
  work.base.values = table.data();
  work.base.scratch = reinterpret_cast<std::byte*>(scratch.data());
  work.base.workers = workers;
  work.base.cursor = &work.cursor;
  work.base.stop = &work.stop;
  if (team != nullptr) {
    team->execute(work);
  } else {
    for (std::int64_t p = 0; p < work.phases(); ++p) work.run(p, 0), work.between(p);
  }

  OpOutputs out;
  for (const auto& [id, width] : writes) out.values.emplace_back(id, std::move(find(values, id)));
  out.cache.assign(slab, slab + in.cache.size());
  return out;
}

}  // namespace dsv31::inline v1::sched
