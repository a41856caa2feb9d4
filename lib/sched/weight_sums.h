// Checksums of a model's weights in memory, to notice a change of them after loading.
#pragma once

#include <cstdint>
#include <vector>

#include "dsv31/backend.h"
#include "lib/sched/program.h"
#include "lib/sched/team.h"

namespace dsv31::inline v1::sched {

struct WeightSums {
  std::vector<std::uint64_t> matrices;  // by MatrixId: io::checksum of its count * stride bytes, then of its scales
  std::vector<std::uint64_t> vectors;   // by VectorId: of its floats
};

// The workers share the matrices; it goes as fast as they read memory. with_matrices false: of the vectors only.
WeightSums sum_weights(const Graph& graph, const WeightView& weights, Team& team, bool with_matrices = true);

}  // namespace dsv31::inline v1::sched
