#include "lib/sched/expert_count.h"

#include <algorithm>
#include <bit>

#include "lib/sched/placement.h"

namespace dsv31::inline v1::sched {

ExpertCount::ExpertCount(const Graph& graph) : graph_(&graph) {
  const std::vector<std::int32_t> layers = layer_of_op(graph);
  for (std::size_t i = 0; i < graph.ops.size(); ++i)
    if (auto* gate = std::get_if<Gate>(&graph.ops[i])) {
      const std::vector<std::uint64_t> none(static_cast<std::size_t>(gate->n_routed_experts), 0);
      layers_.push_back({i, layers[i], none, none});
    }
}

void ExpertCount::begin() noexcept {
  for (Layer& l : layers_) std::fill(l.step.begin(), l.step.end(), 0);
}

void ExpertCount::see(std::size_t op, const RunContext& context) noexcept {
  auto* gate = std::get_if<Gate>(&graph_->ops[op]);
  if (gate == nullptr) return;
  const auto of_op = [op](const Layer& l) { return l.op == op; };
  Layer& layer = *std::find_if(layers_.begin(), layers_.end(), of_op);
  for (std::int64_t r = 0; r < context.step->rows(); ++r) {
    const float* ids = context.row(gate->ids, r, gate->num_experts_per_tok);
    for (std::int64_t j = 0; j < gate->num_experts_per_tok; ++j)
      ++layer.step[static_cast<std::size_t>(std::bit_cast<std::int32_t>(ids[j]))];
  }
}

void ExpertCount::commit() noexcept {
  for (Layer& l : layers_)
    for (std::size_t e = 0; e < l.tokens.size(); ++e) l.tokens[e] += l.step[e];
}

}  // namespace dsv31::inline v1::sched
