#include "dsv31/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>

#include "dsv31/mac_loop.h"
#include "dsv31/quant.h"
#include "lib/api/model_impl.h"

namespace dsv31::inline v1 {
namespace {

using Seconds = std::chrono::duration<double>;

// One phase that every worker runs, or many empty ones.
struct Trial final : sched::Team::Work {
  std::int64_t count = 1;
  std::function<void(int worker)> body;

  std::int64_t phases() const override { return count; }
  void run(std::int64_t, int worker) override {
    if (body) body(worker);
  }
  bool between(std::int64_t) override { return false; }
};

double seconds_of(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return Seconds(std::chrono::steady_clock::now() - start).count();
}
double best_of(int trials, const std::function<void()>& f) {
  double best = seconds_of(f);
  for (int i = 1; i < trials; ++i) best = std::min(best, seconds_of(f));
  return best;
}

// Turns a second of a loop that all workers run. Each times itself and the quickest time of several counts, so that one that
// waits for its processor does not make the others look slow.
double turns_per_second(sched::Team& team, double seconds, void (*run)(std::int64_t)) {
  std::int64_t turns = 256;
  while (best_of(3, [&] { run(turns); }) < seconds / 8 && turns < std::int64_t{1} << 40) turns *= 2;
  std::vector<double> quickest(static_cast<std::size_t>(team.size()), 0);
  Trial trial;
  trial.body = [&](int w) {
    const double s = seconds_of([&] { run(turns); });
    double& best = quickest[static_cast<std::size_t>(w)];
    best = best > 0 ? std::min(best, s) : s;
  };
  for (int i = 0; i < 8; ++i) team.execute(trial);
  double sum = 0;
  for (const double s : quickest) sum += static_cast<double>(turns) / s;
  return sum / static_cast<double>(team.size());
}

std::uint64_t sum_of(const std::uint64_t* p, std::size_t n) {
  std::uint64_t s[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (std::size_t j = 0; j < 8; ++j) s[j] += p[i + j];
  for (; i < n; ++i) s[0] += p[i];
  return s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}

void measure_reading(Runtime::Impl& r, std::uint64_t bytes, MachineProfile& out) {
  const sched::Buffer buffer = r.accountant->allocate(sched::MemoryClass::scratch, bytes, "probe_machine");
  auto* const words = reinterpret_cast<std::uint64_t*>(buffer.data());
  const std::size_t n = bytes / sizeof *words, workers = static_cast<std::size_t>(r.team.size());
  const auto begin = [&](std::size_t worker) { return n * worker / workers; };
  std::atomic<std::uint64_t> sink{0};
  Trial trial;
  trial.body = [&](int w) {  // pages that were never written are one page of zeros
    const auto i = static_cast<std::size_t>(w);
    std::fill(words + begin(i), words + begin(i + 1), std::uint64_t{1});
  };
  r.team.execute(trial);
  trial.body = [&](int w) {
    const auto i = static_cast<std::size_t>(w);
    sink.fetch_add(sum_of(words + begin(i), begin(i + 1) - begin(i)), std::memory_order_relaxed);
  };
  out.read_bandwidth = static_cast<double>(bytes) / best_of(4, [&] { r.team.execute(trial); });
  out.read_bandwidth_one =
      static_cast<double>(bytes) / best_of(3, [&] { sink.fetch_add(sum_of(words, n), std::memory_order_relaxed); });
}

void add(std::vector<TypeWork>& to, const MatrixDesc& m, double share) {
  const auto macs = static_cast<std::uint64_t>(static_cast<double>(m.count * m.rows * m.cols) * share);
  const std::string type(format(m.type).name);
  for (TypeWork& t : to)
    if (t.type == type) {
      t.macs += macs;
      return;
    }
  to.push_back({type, macs});
}

double keys_seen(const AttentionWork& a, std::int64_t position) {
  return static_cast<double>(a.window > 0 ? std::min(a.window, position + 1) : position + 1);
}

}  // namespace

MachineProfile probe_machine(const Runtime& runtime, const ProbeOptions& options) {
  if (options.buffer_bytes < 4096 || options.buffer_bytes > std::uint64_t{1} << 40)
    throw Error(Code::argument, "probe.buffer_bytes", fmt::format("got {}, expected 4096 to 2^40", options.buffer_bytes));
  if (!(options.seconds_a_loop > 0 && options.seconds_a_loop <= 10))
    throw Error(Code::argument, "probe.seconds_a_loop",
                fmt::format("got {}, expected above 0, at most 10", options.seconds_a_loop));
  Runtime::Impl& r = *runtime.impl();
  MachineProfile out;
  out.isa = r.isa;
  out.threads = r.team.size();
  measure_reading(r, options.buffer_bytes, out);
  out.cycles_per_second = turns_per_second(r.team, options.seconds_a_loop, count_cycles) * static_cast<double>(kAdditions);
  for (const MacLoop& loop : mac_loops(out.isa)) {
    FormRate rate{std::string(loop.form), {}, 0, 0};
    for (const DType type : loop.types) rate.types.emplace_back(format(type).name);
    const double one = turns_per_second(r.team, options.seconds_a_loop, loop.run) * static_cast<double>(loop.macs);
    rate.macs_per_second = one * out.threads;
    rate.macs_per_cycle = one / out.cycles_per_second;
    out.forms.push_back(std::move(rate));
  }
  Trial empty;
  empty.count = 1000;
  out.barrier_seconds = best_of(5, [&] { r.team.execute(empty); }) / static_cast<double>(empty.count);
  return out;
}

TokenWork token_work(const Model& model, const ComputeOptions& compute, std::int64_t position) {
  check(compute);
  if (position < 0 || position >= model::kMaxContext)
    throw Error(Code::argument, "token_work.position", fmt::format("got {}, expected 0 to {}", position, model::kMaxContext - 1));
  Model::Impl& impl = *model.impl();
  const sched::Program& program = impl.engine->lane(numerics_of(compute)).program;
  const Graph& graph = program.graph();
  TokenWork out;
  out.weight_bytes = impl.info.active_bytes;
  out.layers = impl.info.num_hidden_layers;

  const std::int32_t token = 0, at = static_cast<std::int32_t>(position), sequence = 0, logit_row = 0;
  const std::vector<std::int32_t> blocks(static_cast<std::size_t>(position / kBlock + 1), 0);
  const SequenceRows rows{
      .first_row = 0, .rows = 1, .position = position, .blocks = blocks.data(), .window_blocks = blocks.data()};
  Step step;
  step.tokens = {&token, 1};
  step.positions = {&at, 1};
  step.sequence_of_row = {&sequence, 1};
  step.sequences = {&rows, 1};
  step.logit_rows = {&logit_row, 1};

  const std::uint64_t element = compute.exact ? 4 : 2;
  for (std::size_t i = 0; i < graph.trunk_end(); ++i) {
    const Op& op = graph.ops[i];
    out.barriers += program.op(i).phases(step);
    if (std::holds_alternative<Embed>(op)) continue;
    const auto* experts = std::get_if<Experts>(&op);
    for (const MatrixId id : graph::uses(op).matrices) {
      const bool chosen = experts != nullptr && (id == experts->gate || id == experts->up || id == experts->down);
      add(std::holds_alternative<Head>(op) ? out.head : out.body, graph.matrices[static_cast<std::size_t>(id)],
          chosen ? static_cast<double>(experts->num_experts_per_tok) / static_cast<double>(experts->n_routed_experts) : 1);
    }
    const auto bytes = [&](std::int32_t layer) {
      return static_cast<std::uint64_t>(graph.caches[static_cast<std::size_t>(layer)].width()) * element;
    };
    if (const auto* a = std::get_if<Attention>(&op))
      out.attention.push_back({a->window, static_cast<std::uint64_t>(2 * a->num_attention_heads * a->head_dim), bytes(a->layer)});
    if (const auto* a = std::get_if<MlaAttention>(&op))
      out.attention.push_back({a->selected == kNone ? 0 : graph.values[static_cast<std::size_t>(a->selected)].width,
                               static_cast<std::uint64_t>(a->num_attention_heads * (2 * a->kv_lora_rank + a->qk_rope_head_dim)),
                               bytes(a->layer)});
  }
  return out;
}

double decode_bytes(const TokenWork& work, std::int64_t position) {
  double sum = static_cast<double>(work.weight_bytes);
  for (const AttentionWork& a : work.attention) sum += static_cast<double>(a.bytes_per_key) * keys_seen(a, position);
  return sum;
}

double least_prefill_seconds(const MachineProfile& machine, const TokenWork& work, std::int64_t depth, std::int64_t tokens) {
  const auto rate = [&](const std::string& type) {
    for (const FormRate& f : machine.forms)
      if (std::find(f.types.begin(), f.types.end(), type) != f.types.end()) return f.macs_per_second;
    return 0.0;
  };
  double seconds = 0;
  for (const auto* list : {&work.body, &work.head})
    for (const TypeWork& t : *list) {
      if (rate(t.type) <= 0) return 0;
      seconds += static_cast<double>(t.macs) * static_cast<double>(list == &work.body ? tokens : 1) / rate(t.type);
    }
  double keys = 0;
  for (const AttentionWork& a : work.attention)
    for (std::int64_t i = 0; i < tokens; ++i) keys += keys_seen(a, depth + i) * static_cast<double>(a.macs_per_key);
  if (keys > 0 && rate("F32") <= 0) return 0;
  return keys > 0 ? seconds + keys / rate("F32") : seconds;
}

}  // namespace dsv31::inline v1
