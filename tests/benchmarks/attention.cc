// Attention and latent attention of one layer over an f16 cache: a token after many, and a prompt. GB/s counts the cache,
// mac/cycle/core the two products, beside the ceiling of float multiply-accumulates.
#include <benchmark/benchmark.h>

#include "tests/benchmarks/op_rig.h"
#include "tests/benchmarks/suites.h"

namespace dsv31::bench {
namespace {

struct Case {
  const char* name;
  std::int64_t heads, kv_heads, dim;  // kv_heads 0: latent attention of rank 512, with 64 turned dimensions
  std::int64_t position, rows;
};
constexpr Case kCases[] = {
    {"gqa/32:8x128/decode@512", 32, 8, 128, 511, 1},  {"gqa/32:8x128/decode@4096", 32, 8, 128, 4095, 1},
    {"gqa/32:8x128/prefill@512", 32, 8, 128, 0, 512}, {"gqa/9:3x64/decode@512", 9, 3, 64, 511, 1},
    {"gqa/9:3x64/prefill@512", 9, 3, 64, 0, 512},     {"mla/16x512/decode@512", 16, 0, 0, 511, 1},
    {"mla/16x512/decode@4096", 16, 0, 0, 4095, 1},    {"mla/16x512/prefill@512", 16, 0, 0, 0, 512},
};

void attend(benchmark::State& state, const Case& c, const std::string& isa, int threads) {
  OpRig rig(isa, threads);
  const std::int64_t keys = c.position + c.rows;
  double macs_per_key = 0, bytes_per_key = 0;
  if (c.kv_heads > 0) {
    Attention op;
    op.num_attention_heads = c.heads;
    op.num_key_value_heads = c.kv_heads;
    op.head_dim = c.dim;
    op.scale = 0.1f;
    op.q = rig.value(c.heads * c.dim);
    op.out = rig.value(c.heads * c.dim);
    rig.cache({.num_key_value_heads = c.kv_heads, .head_dim = c.dim}, keys);
    rig.prepare(op, c.rows, c.position, 1);
    macs_per_key = static_cast<double>(2 * c.heads * c.dim);
    bytes_per_key = static_cast<double>(4 * c.kv_heads * c.dim);
  } else {
    MlaAttention op;
    op.num_attention_heads = c.heads;
    op.kv_lora_rank = 512;
    op.qk_nope_head_dim = op.v_head_dim = 128;
    op.qk_rope_head_dim = 64;
    op.scale = 0.1f;
    op.kv_norm = {rig.vector(512), 1e-6f};
    op.k_b = rig.matrix(DType::q8_0, c.heads, 512, 128);
    op.v_b = rig.matrix(DType::q8_0, c.heads, 128, 512);
    op.angles = rig.value(64);
    op.q = rig.value(c.heads * 192);
    op.c = rig.value(576);
    op.out = rig.value(c.heads * 128);
    rig.cache({.latent = 576}, keys);
    rig.prepare(op, c.rows, c.position, 1);
    macs_per_key = static_cast<double>(c.heads * (2 * 512 + 64));
    bytes_per_key = 2 * 576;
  }
  for (auto _ : state) rig.run();
  const MachineProfile& limits = machine(isa, threads);
  const double turns = static_cast<double>(state.iterations());
  const double seen = static_cast<double>(c.rows) * static_cast<double>(c.position + (c.rows + 1) / 2);
  state.counters["GB/s"] =
      benchmark::Counter(bytes_per_key * static_cast<double>(keys) * turns / 1e9, benchmark::Counter::kIsRate);
  state.counters["mac/cycle/core"] =
      benchmark::Counter(macs_per_key * seen * turns / (limits.cycles_per_second * threads), benchmark::Counter::kIsRate);
  if (!limits.forms.empty()) state.counters["ceiling"] = limits.forms.back().macs_per_cycle;
}

}  // namespace

void register_attention() {
  for (const Case& c : kCases)
    for (const std::string& isa : isas())
      for (const int threads : {1, 2})
        benchmark::RegisterBenchmark(
            ("attention/" + std::string(c.name) + "/" + isa + "/threads=" + std::to_string(threads)).c_str(),
            [&c, isa, threads](benchmark::State& s) { attend(s, c, isa, threads); })
            ->Unit(benchmark::kMicrosecond)
            ->UseRealTime();
}

}  // namespace dsv31::bench
