// One draw over a vocabulary of 129,280: on logits that a real model gave, and on flat random ones, where no stage can stop
// early.
#include "dsv31/sampler.h"

#include <benchmark/benchmark.h>

#include <cstring>
#include <random>
#include <vector>

#include "lib/io/checkpoint.h"
#include "tests/benchmarks/suites.h"

namespace dsv31::bench {
namespace {

constexpr std::size_t kVocab = 129280;

// Rows of Qwen2.5-Coder 0.5B's logits along a text, cut to the vocabulary: (7, kVocab).
std::vector<std::vector<float>> recorded() {
  const auto file = open_file(DSV31_SOURCE_DIR "/tests/data/real/qwen2.5-coder-0.5b_700.safetensors");
  const io::Checkpoint checkpoint = io::open_checkpoint(file);
  std::vector<std::vector<float>> rows;
  for (const io::TensorInfo& t : checkpoint.tensors)
    if (t.name == "logits")
      for (std::int64_t r = 0; r < t.shape[0]; ++r) {
        std::vector<float>& row = rows.emplace_back(kVocab);
        file->read_at(t.offset + static_cast<std::uint64_t>(r * t.shape[1]) * sizeof(float), row.data(), kVocab * sizeof(float));
      }
  return rows;
}

std::vector<std::vector<float>> flat() {
  std::mt19937 random(7);
  std::vector<std::vector<float>> rows(4, std::vector<float>(kVocab));
  for (auto& row : rows)
    for (float& l : row) l = static_cast<float>(random() >> 8) * 0x1p-24f;
  return rows;
}

struct Chain {
  const char* name;
  float temperature;
  std::int32_t top_k;
  float top_p, min_p;
};
constexpr Chain kChains[] = {
    {"greedy", 0, 0, 1, 0},
    {"plain", 1, 0, 1, 0},
    {"top_k=40", 0.8f, 40, 1, 0},
    {"top_p=0.95", 0.6f, 0, 0.95f, 0},
    {"min_p=0.05", 0.8f, 0, 1, 0.05f},
    {"default", 0.8f, 40, 0.95f, 0.05f},
};

void draw(benchmark::State& state, const Chain& chain, const std::vector<std::vector<float>>& rows) {
  SamplerOptions o;
  o.temperature = chain.temperature;
  o.top_k = chain.top_k;
  o.top_p = chain.top_p;
  o.min_p = chain.min_p;
  Sampler sampler(o, kVocab);
  std::int64_t position = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(sampler.sample(rows[static_cast<std::size_t>(position) % rows.size()], position));
    ++position;
  }
}

}  // namespace

void register_sampler() {
  static const auto kRecorded = recorded(), kFlat = flat();
  for (const Chain& chain : kChains)
    for (const bool real : {true, false})
      benchmark::RegisterBenchmark((std::string("sampler/") + (real ? "recorded/" : "flat/") + chain.name).c_str(),
                                   [&chain, real](benchmark::State& s) { draw(s, chain, real ? kRecorded : kFlat); })
          ->Unit(benchmark::kMicrosecond);
}

}  // namespace dsv31::bench
