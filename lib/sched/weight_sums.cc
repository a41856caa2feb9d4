#include "lib/sched/weight_sums.h"

#include <atomic>

#include "lib/io/checksum.h"

namespace dsv31::inline v1::sched {
namespace {

constexpr std::int64_t kScaleBlock = 128;

std::uint64_t sum_matrix(const PackedMatrix& m) {
  io::Checksum sum;
  sum.add(m.data, m.stride * static_cast<std::size_t>(m.desc.count));
  const auto blocks = [](std::int64_t n) { return (n + kScaleBlock - 1) / kScaleBlock; };
  if (m.scales != nullptr)
    sum.add(m.scales, static_cast<std::size_t>(m.desc.count * blocks(m.desc.rows) * blocks(m.desc.cols)) * sizeof(float));
  return sum.value();
}

struct Summing final : Team::Work {
  const Graph* graph;
  WeightView weights;
  WeightSums* sums;
  std::atomic<std::size_t> next{0};

  std::int64_t phases() const override { return 1; }
  bool between(std::int64_t) override { return false; }
  void run(std::int64_t, int) override {
    const std::size_t matrices = sums->matrices.size(), all = matrices + sums->vectors.size();
    for (std::size_t i = next.fetch_add(1); i < all; i = next.fetch_add(1)) {
      if (i < matrices) {
        sums->matrices[i] = sum_matrix(weights.matrices[i]);
        continue;
      }
      const auto width = static_cast<std::size_t>(graph->vector_widths[i - matrices]);
      sums->vectors[i - matrices] = io::checksum(weights.vectors[i - matrices], width * sizeof(float));
    }
  }
};

}  // namespace

WeightSums sum_weights(const Graph& graph, const WeightView& weights, Team& team, bool with_matrices) {
  WeightSums sums;
  if (with_matrices) sums.matrices.resize(graph.matrices.size());
  sums.vectors.resize(graph.vector_widths.size());
  Summing work;
  work.graph = &graph;
  work.weights = weights;
  work.sums = &sums;
  team.execute(work);
  return sums;
}

}  // namespace dsv31::inline v1::sched
