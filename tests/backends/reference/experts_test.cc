// Gate and Experts against values worked out by hand. The router's weight is the identity, so that x is the logits.
#include <bit>

#include "tests/backends/reference/expect.h"

using namespace conformance;

namespace {

struct Routed {
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
};

Routed route(Gate op, const std::vector<float>& logits, const std::vector<float>& bias = {}) {
  CaseBuilder b("gate", {{0, 1}});
  const auto n = static_cast<std::int64_t>(logits.size());
  std::vector<float> identity(logits.size() * logits.size(), 0);
  for (std::size_t i = 0; i < logits.size(); ++i) identity[i * logits.size() + i] = 1;
  op.x = b.input_of(n, logits);
  op.weight = b.matrix_of(n, n, identity);
  if (!bias.empty()) op.bias = b.vector_of(bias);
  op.n_routed_experts = n;
  op.ids = b.output(op.num_experts_per_tok);
  op.weights = b.output(op.num_experts_per_tok);
  const RunResult r = run_reference(b.finish(op, 0));
  Routed routed;
  for (const float id : r.outputs[0]) routed.ids.push_back(std::bit_cast<std::int32_t>(id));
  routed.weights = r.outputs[1];
  return routed;
}

using Ids = std::vector<std::int32_t>;
const float kLn2 = 0.693147181f, kLn3 = 1.09861229f;

}  // namespace

TEST_CASE("softmax gate takes the largest, in ascending id") {
  const Routed r = route({.num_experts_per_tok = 2}, {kLn3, 0, kLn2, kLn2 + kLn2});  // 3, 1, 2, 4 of 10
  CHECK(r.ids == Ids{0, 3});
  expect(r.weights, {0.3, 0.4});
}

TEST_CASE("weights are normalised, then scaled") {
  const Routed r =
      route({.num_experts_per_tok = 2, .norm_topk_prob = true, .routed_scaling_factor = 3.5f}, {kLn3, 0, kLn2, kLn2 + kLn2});
  expect(r.weights, {1.5, 2});
}

TEST_CASE("ties go to the lowest index") {
  CHECK(route({.num_experts_per_tok = 2}, {0, 1, 1, 1}).ids == Ids{1, 2});
  CHECK(route({.num_experts_per_tok = 3}, {1, 0, 1, 0}).ids == Ids{0, 1, 2});
}

TEST_CASE("sigmoid scores that agree in float32 are tied") {
  // sigmoid(40) and sigmoid(50) are both 1 in float32.
  CHECK(route({.num_experts_per_tok = 1, .scoring = Scoring::sigmoid}, {0, 40, 50}).ids == Ids{1});
}

TEST_CASE("the bias chooses but does not weigh") {
  const Routed r = route({.num_experts_per_tok = 1, .scoring = Scoring::sigmoid}, {kLn3, 0, 0}, {0, 0, 0.5f});
  CHECK(r.ids == Ids{2});
  expect(r.weights, {0.5});
}

TEST_CASE("groups are kept by their best, or by the sum of their two best") {
  // Sigmoids 3/4 1/4 | 2/3 1/2 | 1/2 1/2.
  const std::vector<float> logits = {kLn3, -kLn3, kLn2, 0, 0, 0};
  Gate op{.num_experts_per_tok = 2, .n_group = 3, .topk_group = 1, .scoring = Scoring::sigmoid, .group_score = GroupScore::max};
  CHECK(route(op, logits).ids == Ids{0, 1});
  op.group_score = GroupScore::top2_sum;  // 1, 7/6, 1
  CHECK(route(op, logits).ids == Ids{2, 3});
  op.topk_group = 2;  // the first and the last group tie
  CHECK(route(op, logits).ids == Ids{0, 2});
}

TEST_CASE("experts outside the kept groups lose against negative choices inside") {
  Gate op{.num_experts_per_tok = 2, .n_group = 2, .topk_group = 1, .scoring = Scoring::sigmoid, .group_score = GroupScore::max};
  CHECK(route(op, {0, 0, 0, 0}, {1, -9, 0.5f, 0.5f}).ids == Ids{0, 1});
}

TEST_CASE("a gate that wants more experts than its groups hold is refused") {
  Gate op{.num_experts_per_tok = 3, .n_group = 2, .topk_group = 1, .group_score = GroupScore::max};
  CHECK_THROWS_AS(route(op, {0, 0, 0, 0}), Error);
}

TEST_CASE("experts are summed with their weights, the shared one without") {
  CaseBuilder b("experts", {{0, 2}});
  const auto id = [](std::int32_t e) { return std::bit_cast<float>(e); };
  Experts op{.n_routed_experts = 3, .num_experts_per_tok = 2};
  op.x = b.input_of(1, {1, 1});
  op.ids = b.input_of(2, {id(0), id(2), id(1), id(2)});
  op.weights = b.input_of(2, {10, 100, 1000, 0});
  op.gate = b.matrix_of(1, 1, {1, 1, 1});  // three experts of width 1: silu(1) = 0.7310585786
  op.up = b.matrix_of(1, 1, {1, 2, 3});
  op.down = b.matrix_of(1, 1, {1, 1, 2});
  SECTION("routed") {
    op.out = b.output(1);
    expect(run_reference(b.finish(op, 0)).outputs[0], {0.7310585786 * 610, 0.7310585786 * 2000});
  }
  SECTION("shared, residual, gelu") {  // gelu(1) = 0.8411919906
    op.shared_gate = b.matrix_of(2, 1, {1, 1});
    op.shared_up = b.matrix_of(2, 1, {1, 1});
    op.shared_down = b.matrix_of(1, 2, {3, 4});
    op.residual = b.input_of(1, {-1, 5});
    op.activation = Activation::gelu_tanh;
    op.out = b.output(1);
    expect(run_reference(b.finish(op, 0)).outputs[0], {-1 + 0.8411919906 * 617, 5 + 0.8411919906 * 2007});
  }
  SECTION("norm before both") {
    op.norm = {b.vector_of({2}), 3};  // 1 / sqrt(1 + 3) * 2 = 1
    op.out = b.output(1);
    expect(run_reference(b.finish(op, 0)).outputs[0], {0.7310585786 * 610, 0.7310585786 * 2000});
  }
}
