#include "lib/sched/placement.h"

#include <functional>
#include <string>

#include "dsv31/error.h"
#include "lib/graph/graph.h"
#include "tests/catch.h"

using namespace dsv31;

namespace {

struct Fake final : Backend {
  std::string name_, layout_;
  std::function<int(const Op&)> like;  // negative: not supported
  Fake(std::string n, std::string l, std::function<int(const Op&)> f)
      : name_(std::move(n)), layout_(std::move(l)), like(std::move(f)) {}
  std::string_view name() const override { return name_; }
  bool supports(const Op& op, const Graph&, Numerics) const override { return like(op) >= 0; }
  int affinity(const Op& op, const Graph&, Numerics) const override { return like(op); }
  std::string_view layout() const override { return layout_; }
  std::size_t packed_bytes(const MatrixDesc&) const override { return 64; }
  void pack(const MatrixDesc&, std::int64_t, std::int64_t, const std::byte*, std::byte*) const override {}
  void unpack(const MatrixDesc&, std::int64_t, std::int64_t, const std::byte*, std::byte*) const override {}
  std::unique_ptr<PreparedOp> prepare(const Op&, const PrepareContext&) const override { return nullptr; }
};

// embed -> ffn -> head; the head shares the embedding where tied.
Graph small(bool tied) {
  graph::Builder b(32, 32, 64);
  ValueId x = b.value(32), logits = b.logits(32);
  MatrixId table = b.matrix({"table", DType::f32, 1, 32, 32});
  MatrixId out = tied ? table : b.matrix({"out", DType::f32, 1, 32, 32});
  MatrixId gate = b.matrix({"gate", DType::f32, 1, 64, 32}), up = b.matrix({"up", DType::f32, 1, 64, 32}),
           down = b.matrix({"down", DType::f32, 1, 32, 64});
  b.add(Embed{table, 1, x});
  GatedFfn f;
  f.x = f.residual = f.out = x;
  f.gate = gate;
  f.up = up;
  f.down = down;
  b.add(f);
  Head h;
  h.x = x;
  h.weight = out;
  h.out = logits;
  b.add(h);
  return b.finish(x, logits);
}

sched::BackendList two(std::function<int(const Op&)> a, std::function<int(const Op&)> b, std::string layout_b) {
  sched::BackendList list;
  list.push_back(std::make_unique<Fake>("a", "la", std::move(a)));
  list.push_back(std::make_unique<Fake>("b", std::move(layout_b), std::move(b)));
  return list;
}

}  // namespace

TEST_CASE("the higher affinity wins, the earlier backend wins ties") {
  Graph g = small(false);
  auto list = two([](const Op& op) { return std::holds_alternative<GatedFfn>(op) ? 1 : 5; }, [](const Op&) { return 5; }, "lb");
  auto p = sched::place(g, list, {});
  CHECK(p.backend == std::vector<int>{0, 1, 0});
  CHECK(p.layout[0] == "la");
  CHECK(p.layout[2] == "lb");
}

TEST_CASE("ops that share a matrix agree on its layout") {
  Graph g = small(true);
  // `a` likes the lookup better than `b`, but cannot run the head.
  auto list = two([](const Op& op) { return std::holds_alternative<Head>(op) ? -1 : 9; }, [](const Op&) { return 5; }, "lb");
  auto p = sched::place(g, list, {});
  CHECK(p.backend == std::vector<int>{1, 0, 1});
  // With one layout each op goes where it is liked best.
  auto same = two([](const Op& op) { return std::holds_alternative<Head>(op) ? -1 : 9; }, [](const Op&) { return 5; }, "la");
  CHECK(sched::place(g, same, {}).backend == std::vector<int>{0, 0, 1});
}

TEST_CASE("a preferred backend wins where it can; strict refuses elsewhere by name") {
  Graph g = small(false);
  auto list = two([](const Op&) { return 9; }, [](const Op& op) { return std::holds_alternative<GatedFfn>(op) ? -1 : 1; }, "lb");
  CHECK(sched::place(g, list, {}, {"b", false}).backend == std::vector<int>{1, 0, 1});
  try {
    sched::place(g, list, {}, {"b", true});
    FAIL("expected unsupported");
  } catch (const Error& e) {
    CHECK(e.code() == Code::unsupported);
    CHECK(std::string(e.what()).find("'gated_ffn' of layer 0") != std::string::npos);
  }
  CHECK_THROWS_AS(sched::place(g, list, {}, {"c", false}), Error);
}

TEST_CASE("an op that nobody supports is named") {
  Graph g = small(false);
  auto none = [](const Op& op) { return std::holds_alternative<Head>(op) ? -1 : 1; };
  auto list = two(none, none, "lb");
  try {
    sched::place(g, list, {});
    FAIL("expected unsupported");
  } catch (const Error& e) {
    CHECK(std::string(e.what()).find("'head'") != std::string::npos);
  }
}

TEST_CASE("packed layouts hold for every later placement") {
  Graph g = small(false);
  auto list = two([](const Op&) { return 9; }, [](const Op&) { return 1; }, "lb");
  std::vector<std::string_view> fixed(g.matrices.size(), "lb");
  CHECK(sched::place(g, list, {}, {}, &fixed).backend == std::vector<int>{1, 1, 1});
}
