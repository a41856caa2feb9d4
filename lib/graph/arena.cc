// Placing values in one arena is packing of intervals: a value is a rectangle, its life wide and its bytes high, and two
// rectangles that share an op may not share a byte. The largest value goes first, each to the lowest gap that is free over its
// whole life: within a few percent of the peak of live bytes on transformer graphs, where few sizes repeat layer after layer.
// Quadratic in the number of values, which is some thousands.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "dsv31/error.h"
#include "lib/graph/graph.h"

namespace dsv31::inline v1::graph {

std::vector<Lifetime> lifetimes(const Graph& graph) {
  std::vector<Lifetime> lives(graph.values.size());
  const auto touch = [&](ValueId id, std::int32_t op) {
    Lifetime& life = lives[static_cast<std::size_t>(id)];
    if (life.first < 0) life.first = op;
    life.last = op;
  };
  if (graph.draft_state != kNone) touch(graph.draft_state, graph.draft_begin);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const OpUse use = uses(graph.ops[i]);
    for (ValueId id : use.reads) touch(id, static_cast<std::int32_t>(i));
    for (ValueId id : use.writes) touch(id, static_cast<std::int32_t>(i));
  }
  for (ValueId id : {graph.hidden, graph.logits, graph.state, graph.draft_next, graph.draft_logits})
    if (id != kNone) touch(id, static_cast<std::int32_t>(graph.ops.size()) - 1);
  return lives;
}

ArenaPlan plan_arena(const Graph& graph, std::int64_t max_rows, std::int64_t max_logit_rows) {
  const std::vector<Lifetime> lives = lifetimes(graph);
  const std::size_t count = graph.values.size();
  std::vector<std::size_t> size(count, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t rows = graph.values[i].logits ? max_logit_rows : max_rows;
    std::int64_t bytes = 0;
    if (rows < 0 || __builtin_mul_overflow(rows, row_stride(graph.values[i].width) * std::int64_t{sizeof(float)}, &bytes) ||
        bytes > std::int64_t{1} << 56)
      throw Error(Code::limit, "graph.arena",
                  fmt::format("got {} rows of {} values, expected less than 2^56 bytes", rows, graph.values[i].width));
    size[i] = static_cast<std::size_t>(bytes);  // row_stride makes it a multiple of 64
  }
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return size[a] > size[b]; });

  ArenaPlan plan;
  plan.offset.assign(count, 0);
  std::vector<std::size_t> placed;  // ascending by offset
  for (std::size_t i : order) {
    if (lives[i].first < 0 || size[i] == 0) continue;
    std::size_t at = 0;
    for (std::size_t j : placed) {
      if (lives[j].last < lives[i].first || lives[i].last < lives[j].first) continue;
      if (at + size[i] <= plan.offset[j]) break;
      at = std::max(at, plan.offset[j] + size[j]);
    }
    plan.offset[i] = at;
    plan.bytes = std::max(plan.bytes, at + size[i]);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), at,
                                   [&](std::size_t offset, std::size_t j) { return offset < plan.offset[j]; }),
                  i);
  }
  return plan;
}

}  // namespace dsv31::inline v1::graph
