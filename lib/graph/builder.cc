// Appending to a graph: the ids are the positions in its tables.
#include <utility>

#include "lib/graph/graph.h"

namespace dsv31::inline v1::graph {

Builder::Builder(std::int64_t vocab_size, std::int64_t hidden_size, std::int64_t context_length) {
  graph_.vocab_size = vocab_size;
  graph_.hidden_size = hidden_size;
  graph_.context_length = context_length;
}

ValueId Builder::value(std::int64_t width) {
  graph_.values.push_back({.width = width, .logits = false});
  return static_cast<ValueId>(graph_.values.size() - 1);
}

ValueId Builder::logits(std::int64_t width) {
  graph_.values.push_back({.width = width, .logits = true});
  return static_cast<ValueId>(graph_.values.size() - 1);
}

MatrixId Builder::matrix(const MatrixDesc& desc) {
  graph_.matrices.push_back(desc);
  return static_cast<MatrixId>(graph_.matrices.size() - 1);
}

VectorId Builder::vector(std::int64_t width) {
  graph_.vector_widths.push_back(width);
  return static_cast<VectorId>(graph_.vector_widths.size() - 1);
}

std::int32_t Builder::cache(const CacheDesc& desc) {
  graph_.caches.push_back(desc);
  return static_cast<std::int32_t>(graph_.caches.size() - 1);
}

void Builder::add(Op op) { graph_.ops.push_back(std::move(op)); }

void Builder::begin_draft(ValueId state, ValueId draft_state) {
  graph_.draft_begin = static_cast<std::int32_t>(graph_.ops.size());
  graph_.state = state;
  graph_.draft_state = draft_state;
}

void Builder::end_draft(ValueId next, ValueId logits) {
  graph_.draft_next = next;
  graph_.draft_logits = logits;
}

Graph Builder::finish(ValueId hidden, ValueId logits) {
  graph_.hidden = hidden;
  graph_.logits = logits;
  validate(graph_);
  return std::exchange(graph_, {});
}

}  // namespace dsv31::inline v1::graph
