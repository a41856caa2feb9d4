// How many tokens chose each expert of each layer: a count of what the gates of a program wrote, read after a gate's last phase
// by the one thread that runs between phases. Nothing of a step depends on it.
#pragma once

#include <cstdint>
#include <vector>

#include "dsv31/backend.h"

namespace dsv31::inline v1::sched {

class ExpertCount {
 public:
  explicit ExpertCount(const Graph& graph);

  // A step begins; what an earlier one left uncommitted is dropped.
  void begin() noexcept;
  // Op `op` of the graph has run.
  void see(std::size_t op, const RunContext& context) noexcept;
  // The step's rows count.
  void commit() noexcept;

  struct Layer {
    std::size_t op = 0;                       // the gate
    std::int32_t layer = 0;                   // as layer_of_op has it
    std::vector<std::uint64_t> tokens, step;  // (n_routed_experts): committed, and of this step
  };
  const std::vector<Layer>& layers() const noexcept { return layers_; }

 private:
  const Graph* graph_;
  std::vector<Layer> layers_;
};

}  // namespace dsv31::inline v1::sched
