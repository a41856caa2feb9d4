// Products of every format, shape and instruction set as the op Linear runs them: norm, quantisation of the activations, product,
// residual. GB/s counts packed weights; mac/cycle/core stands beside the ceiling of its instruction form, measured in registers
// in the same process ("ceiling"). Few rows take turns on copies of the matrix of 100 MB together: they read from memory.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "dsv31/quant.h"
#include "tests/benchmarks/op_rig.h"
#include "tests/benchmarks/suites.h"

namespace dsv31::bench {
namespace {

constexpr DType kTypes[] = {DType::q4_0,  DType::q4_1,    DType::q5_0, DType::q5_1, DType::q8_0,   DType::q2_k,
                            DType::q3_k,  DType::q4_k,    DType::q5_k, DType::q6_k, DType::iq4_nl, DType::iq4_xs,
                            DType::mxfp4, DType::f8_e4m3, DType::bf16, DType::f16,  DType::f32};
struct Shape {
  std::int64_t rows, cols;
};
// The second is SmolLM2's gate, the third that of Qwen2.5 0.5B, the last an expert of DeepSeek-V3.
constexpr Shape kShapes[] = {{2048, 2048}, {1536, 576}, {4864, 896}, {2048, 7168}};
constexpr std::int64_t kRows[] = {1, 4, 512};

void product(benchmark::State& state, DType type, const std::string& isa, Shape shape, std::int64_t m, int threads) {
  OpRig rig(isa, threads);
  Linear op;
  op.x = rig.value(shape.cols);
  op.norm = {rig.vector(shape.cols), 1e-6f};
  op.residual = rig.value(shape.rows);
  op.parts = {{rig.matrix(type, 1, shape.rows, shape.cols), kNone, rig.value(shape.rows)}};
  const double bytes = static_cast<double>(rig.packed_bytes()), macs = static_cast<double>(shape.rows * shape.cols * m);
  rig.prepare(op, m, 0, m < 16 ? static_cast<int>(1e8 / bytes) + 1 : 1);
  for (auto _ : state) rig.run();
  const MachineProfile& limits = machine(isa, threads);
  const double turns = static_cast<double>(state.iterations());
  state.counters["GB/s"] = benchmark::Counter(bytes * turns / 1e9, benchmark::Counter::kIsRate);
  state.counters["mac/cycle/core"] =
      benchmark::Counter(macs * turns / (limits.cycles_per_second * threads), benchmark::Counter::kIsRate);
  state.counters["GB/s limit"] = limits.read_bandwidth / 1e9;
  for (const FormRate& f : limits.forms)
    if (std::find(f.types.begin(), f.types.end(), format(type).name) != f.types.end())
      state.counters["ceiling"] = f.macs_per_cycle;
}

}  // namespace

void register_kernels() {
  for (const DType type : kTypes)
    for (const std::string& isa : isas())
      for (const Shape& shape : kShapes)
        for (const std::int64_t m : kRows)
          for (const int threads : {1, 2}) {
            if (shape.cols % format(type).block != 0) continue;
            const std::string name = "kernels/" + std::string(format(type).name) + "/" + isa + "/" + std::to_string(shape.rows) +
                                     "x" + std::to_string(shape.cols) + "/m=" + std::to_string(m) +
                                     "/threads=" + std::to_string(threads);
            benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& s) { product(s, type, isa, shape, m, threads); })
                ->Unit(benchmark::kMicrosecond)
                ->UseRealTime();
          }
}

}  // namespace dsv31::bench
