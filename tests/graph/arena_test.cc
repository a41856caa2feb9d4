// Values that are alive together never share a byte; values that are not may.
#include <algorithm>
#include <cstdint>
#include <random>

#include "dsv31/error.h"
#include "lib/graph/graph.h"
#include "tests/catch.h"
#include "tests/graph/sample.h"

using namespace dsv31;

namespace {

std::size_t bytes_of(const ValueDesc& v, std::int64_t rows, std::int64_t logit_rows) {
  return static_cast<std::size_t>((v.logits ? logit_rows : rows) * row_stride(v.width)) * sizeof(float);
}

// Replays the graph op by op over a map of owners: a byte written by an op must still belong to the same value when it is read.
void check_plan(const Graph& g, std::int64_t rows, std::int64_t logit_rows) {
  const graph::ArenaPlan plan = graph::plan_arena(g, rows, logit_rows);
  REQUIRE(plan.bytes % 64 == 0);
  std::vector<ValueId> owner(plan.bytes / 64, kNone);
  const auto owned = [&](ValueId id) {
    const std::size_t at = plan.offset[static_cast<std::size_t>(id)],
                      n = bytes_of(g.values[static_cast<std::size_t>(id)], rows, logit_rows);
    for (std::size_t i = at / 64; i < (at + n) / 64; ++i)
      if (owner[i] != id) return false;
    return true;
  };
  for (const Op& op : g.ops) {
    const graph::OpUse use = graph::uses(op);
    for (ValueId id : use.writes) {
      const std::size_t at = plan.offset[static_cast<std::size_t>(id)],
                        n = bytes_of(g.values[static_cast<std::size_t>(id)], rows, logit_rows);
      REQUIRE(at % 64 == 0);
      REQUIRE(at + n <= plan.bytes);
      for (std::size_t i = at / 64; i < (at + n) / 64; ++i) owner[i] = id;
    }
    for (ValueId id : use.reads) REQUIRE(owned(id));
    for (ValueId id : use.writes) REQUIRE(owned(id));
  }
  REQUIRE(owned(g.hidden));
  REQUIRE(owned(g.logits));
}

// A chain of projections with a random width each and reads that reach back a random distance.
Graph random_graph(std::mt19937& random) {
  graph::Builder b(32, 16, 64);
  std::vector<std::pair<ValueId, std::int64_t>> values{{b.value(16), 16}};
  const ValueId first = values[0].first;
  b.add(Embed{.weight = b.matrix(sample::f32(32, 16)), .out = first});
  const int ops = 1 + static_cast<int>(random() % 40);
  for (int i = 0; i < ops; ++i) {
    const auto [x, width] = values[values.size() - 1 - random() % std::min<std::size_t>(values.size(), 6)];
    Linear op{.x = x, .norm = {}, .parts = {}, .post_norm = {}};
    const int parts = 1 + static_cast<int>(random() % 3);
    std::vector<std::pair<ValueId, std::int64_t>> made;
    for (int p = 0; p < parts; ++p) {
      const std::int64_t out = 1 + static_cast<std::int64_t>(random() % 100);
      made.emplace_back(b.value(out), out);
      op.parts.push_back({b.matrix(sample::f32(out, width)), kNone, made.back().first});
    }
    b.add(std::move(op));
    values.insert(values.end(), made.begin(), made.end());
  }
  const ValueId logits = b.logits(32);
  b.add(Head{.x = first, .norm = {}, .weight = b.matrix(sample::f32(32, 16)), .out = logits});
  return b.finish(first, logits);
}

}  // namespace

TEST_CASE("live values of the sample graphs never overlap") {
  for (std::int64_t rows : {1, 2, 7, 64}) {
    check_plan(sample::dense().graph, rows, 1);
    check_plan(sample::mla().graph, rows, rows);
  }
}

TEST_CASE("live values of random graphs never overlap") {
  std::mt19937 random(20240607);
  for (int i = 0; i < 300; ++i) check_plan(random_graph(random), 1 + static_cast<std::int64_t>(random() % 9), 1 + i % 3);
}

TEST_CASE("lifetimes run from the first write to the last use") {
  const Graph g = sample::dense().graph;
  const std::vector<graph::Lifetime> lives = graph::lifetimes(g);
  CHECK(lives[0].first == 0);  // x: from the embedding to the head, and to the end as graph.hidden
  CHECK(lives[0].last == 7);
  CHECK(lives[1].first == 1);  // angles
  CHECK(lives[1].last == 3);
  CHECK(lives[2].first == 2);  // q
  CHECK(lives[2].last == 4);
  CHECK(lives[3].last == 3);   // k
  CHECK(lives[5].first == 4);  // the heads' output
  CHECK(lives[5].last == 5);
}

TEST_CASE("dead values are built upon") {
  // x 64, angles 32, q 64, k 32, v 32, heads 64 floats a row live at most as x + angles + q + k + v = 224 floats; logits are 320
  // for one row and stand beside x only.
  const graph::ArenaPlan plan = graph::plan_arena(sample::dense().graph, 10, 1);
  CHECK(plan.bytes == 224 * 4 * 10);
}

TEST_CASE("logits take a row for each wanted row only") {
  const Graph g = sample::dense().graph;
  CHECK(graph::plan_arena(g, 1, 100).bytes == std::size_t{100 * 320 * 4 + 64 * 4});
}

TEST_CASE("an arena past 2^56 bytes is a limit") {
  const Graph g = sample::dense().graph;
  for (std::int64_t rows : {std::int64_t{1} << 55, std::int64_t{1} << 62, std::int64_t{-1}}) {
    try {
      graph::plan_arena(g, rows, 1);
      FAIL("accepted");
    } catch (const Error& e) {
      CHECK(e.code() == Code::limit);
    }
  }
}
