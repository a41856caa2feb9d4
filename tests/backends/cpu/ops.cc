// What an op gives for a row does not depend on the other rows of the step, on the number of workers, or on the instruction set.
#include "backends/cpu/ops.h"

#include <bit>
#include <cstring>
#include <map>
#include <set>

#include "dsv31/error.h"
#include "tests/backends/cpu/rig.h"
#include "tests/catch.h"

using namespace dsv31;
using simd::Isa;
using test::Rig;

namespace {

std::vector<std::int32_t> first_rows(std::int32_t n) {
  std::vector<std::int32_t> rows;
  for (std::int32_t i = 0; i < n; ++i) rows.push_back(i);
  return rows;
}

// Runs the op on each row alone with one worker and the generic kernels, then on many rows with every worker count and
// instruction set.
template <class Prepare>
void check_rows_stand_alone(Rig& rig, Prepare prepare, const std::vector<ValueId>& inputs, const std::vector<ValueId>& outputs) {
  constexpr std::int32_t kRows = 37;
  std::vector<std::vector<std::uint32_t>> alone;  // (rows): all outputs of a row, as bits
  const auto generic = prepare(Isa::generic);
  const auto bits = [](const std::vector<float>& x) {
    std::vector<std::uint32_t> b(x.size());
    std::memcpy(b.data(), x.data(), x.size() * 4);
    return b;
  };
  for (std::int32_t r = 0; r < kRows; ++r) alone.push_back(bits(rig.run(*generic, inputs, outputs, {{r}, {0}, 1})));
  CHECK(std::set<std::vector<std::uint32_t>>(alone.begin(), alone.end()).size() == kRows);
  for (Isa isa : test::isas()) {
    const auto op = prepare(isa);
    for (std::int32_t n : {1, 2, 3, 9, kRows})
      for (int workers : {1, 2, 3}) {
        for (bool threads : {false, true}) {
          if (threads && (workers != 3 || isa == Isa::generic)) continue;
          INFO(simd::isa_name(isa) << ", " << n << " rows, " << workers << " workers");
          const auto rows = first_rows(n);
          const std::vector<std::uint32_t> together = bits(rig.run(*op, inputs, outputs, {rows, rows, workers, threads}));
          std::size_t at = 0, wrong = 0;
          std::vector<std::size_t> taken(static_cast<std::size_t>(n), 0);
          for (ValueId id : outputs) {
            const auto width = static_cast<std::size_t>(rig.graph.values[static_cast<std::size_t>(id)].width);
            for (std::size_t r = 0; r < static_cast<std::size_t>(n); ++r, at += width) {
              wrong += std::memcmp(together.data() + at, alone[r].data() + taken[r], width * 4) != 0;
              taken[r] += width;
            }
          }
          CHECK(wrong == 0);
        }
      }
  }
}

}  // namespace

TEST_CASE("embed takes the token's row") {
  Rig rig(cpu::float_kernels());
  const Embed op = {.weight = rig.matrix(DType::bf16, 1, 100, 40, 1), .scale = 3, .out = rig.value(40)};
  const auto context = rig.context();
  check_rows_stand_alone(rig, [&](Isa isa) { return cpu::prepare_embed(op, context, cpu::float_kernels(), isa); }, {}, {op.out});
  const auto prepared = cpu::prepare_embed(op, context, cpu::float_kernels(), Isa::generic);
  CHECK_THROWS_AS(rig.run(*prepared, {}, {op.out}, {{100}, {}, 1}), Error);
  CHECK_THROWS_AS(rig.run(*prepared, {}, {op.out}, {{-1}, {}, 1}), Error);
}

TEST_CASE("linear with norm, biases and several parts") {
  Rig rig(cpu::float_kernels());
  Linear op;
  op.x = rig.value(300);
  op.norm = {rig.vector(300, 2, 1), 1e-5f};
  for (DType type : {DType::f32, DType::f16, DType::f8_e4m3})
    op.parts.push_back({rig.matrix(type, 1, 70, 300, 3), type == DType::f16 ? rig.vector(70, 4) : kNone, rig.value(70)});
  op.parts.push_back({rig.matrix(DType::bf16, 1, 330, 300, 4), kNone, rig.value(330)});
  const auto context = rig.context();
  const auto prepare = [&](Isa isa) { return cpu::prepare_linear(op, context, cpu::float_kernels(), isa); };
  check_rows_stand_alone(rig, prepare, {op.x}, {op.parts[0].out, op.parts[1].out, op.parts[2].out, op.parts[3].out});
  CHECK(prepare(Isa::generic)->kernel() == "generic F32*f32 F16*f32 F8_E4M3*f32 BF16*f32");
}

TEST_CASE("linear adds to the residual in place, after the post norm where there is one") {
  for (bool post : {false, true})
    for (bool in_place : {false, true})
      for (bool over_x : {false, true}) {
        Rig rig(cpu::float_kernels());
        Linear op;
        op.x = rig.value(90);
        op.residual = over_x ? op.x : rig.value(90);
        op.parts.push_back({rig.matrix(DType::f16, 1, 90, 90, 3), rig.vector(90, 4), in_place ? op.residual : rig.value(90)});
        if (post) op.post_norm = {rig.vector(90, 5, 1), 1e-6f};
        const auto context = rig.context();
        check_rows_stand_alone(rig, [&](Isa isa) { return cpu::prepare_linear(op, context, cpu::float_kernels(), isa); },
                               {op.x, op.residual}, {op.parts[0].out});
      }
}

TEST_CASE("gated feed-forward") {
  for (bool post : {false, true}) {
    Rig rig(cpu::float_kernels());
    GatedFfn op;
    op.x = op.residual = op.out = rig.value(260);
    if (!post) op.residual = kNone;
    op.norm = {rig.vector(260, 2, 1), 1e-5f};
    op.gate = rig.matrix(DType::f16, 1, 150, 260, 3);
    op.up = rig.matrix(DType::bf16, 1, 150, 260, 4);
    op.down = rig.matrix(DType::f8_e4m3, 1, 260, 150, 5);
    if (post) {
      op.gate_bias = rig.vector(150, 6), op.up_bias = rig.vector(150, 7), op.down_bias = rig.vector(260, 8);
      op.activation = Activation::gelu_tanh;
      op.post_norm = {rig.vector(260, 9, 1), 1e-5f};
    }
    const auto context = rig.context();
    check_rows_stand_alone(rig, [&](Isa isa) { return cpu::prepare_gated_ffn(op, context, cpu::float_kernels(), isa); }, {op.x},
                           {op.out});
  }
}

TEST_CASE("head gives logits of the wanted rows") {
  for (bool norm : {false, true}) {
    Rig rig(cpu::float_kernels());
    Head op;
    op.x = rig.value(300);
    if (norm) op.norm = {rig.vector(300, 2, 1), 1e-5f}, op.softcap = 2, op.bias = rig.vector(333, 3);
    op.weight = rig.matrix(DType::f16, 1, 333, 300, 4);
    op.out = rig.value(333, true);
    const auto context = rig.context();
    const auto prepare = [&](Isa isa) { return cpu::prepare_head(op, context, cpu::float_kernels(), isa); };
    check_rows_stand_alone(rig, prepare, {op.x}, {op.out});
    const auto prepared = prepare(Isa::generic);
    const auto all = rig.run(*prepared, {op.x}, {op.out}, {first_rows(8), first_rows(8), 2});
    const auto some = rig.run(*prepared, {op.x}, {op.out}, {first_rows(8), {2, 7}, 2});
    REQUIRE(some.size() == 2 * 333);
    CHECK(std::memcmp(some.data(), all.data() + 2 * 333, 333 * 4) == 0);
    CHECK(std::memcmp(some.data() + 333, all.data() + 7 * 333, 333 * 4) == 0);
    CHECK(rig.run(*prepared, {op.x}, {op.out}, {first_rows(3), {}, 2}).empty());
  }
}

TEST_CASE("gate chooses experts by group, ties to the lowest index, in ascending id") {
  // The identity as router: the logits are x. Eight experts in four groups; sigmoid and softmax keep the order.
  Rig rig(cpu::float_kernels());
  Gate op;
  op.x = rig.value(8);
  op.weight = rig.matrix(DType::f32, 1, 8, 8, 1);
  auto* w = reinterpret_cast<float*>(const_cast<std::byte*>(rig.context().matrices[0].data));  // packed [k][16 rows]
  for (int k = 0; k < 8; ++k)
    for (int r = 0; r < 8; ++r) w[k * 16 + r] = r == k ? 1.0f : 0.0f;
  op.n_routed_experts = 8, op.num_experts_per_tok = 2, op.n_group = 4, op.topk_group = 2;
  op.scoring = Scoring::sigmoid;
  op.ids = rig.value(2), op.weights = rig.value(2);
  static std::map<std::int32_t, std::vector<float>> rows;
  rows = {{0, {0, 5, 4, 4, 3, 0, 0, 0}},  // sums favour groups 1 and 0; two largest there: 1, then 2 before 3
          {1, {1, 1, 1, 1, 1, 1, 1, 1}},  // all tied
          {2, {-9, -9, 0, 1, -9, 6, 2, 2}}};
  rig.input = [](ValueId, std::int64_t, std::int32_t row) { return rows.at(row); };
  const auto chosen = [&](std::int32_t row) {
    const auto out =
        rig.run(*cpu::prepare_gate(op, rig.context(), cpu::float_kernels(), Isa::generic), {op.x}, {op.ids}, {{row}, {}, 1});
    return std::vector<std::int32_t>{std::bit_cast<std::int32_t>(out[0]), std::bit_cast<std::int32_t>(out[1])};
  };
  op.group_score = GroupScore::top2_sum;
  CHECK(chosen(0) == std::vector<std::int32_t>{1, 2});
  CHECK(chosen(1) == std::vector<std::int32_t>{0, 1});
  CHECK(chosen(2) == std::vector<std::int32_t>{6, 7});  // sigmoid sums: group 3 1.76, group 1 1.23, group 2 0.998
  op.group_score = GroupScore::max;
  CHECK(chosen(2) == std::vector<std::int32_t>{5, 6});
  op.group_score = GroupScore::none;
  CHECK(chosen(2) == std::vector<std::int32_t>{5, 6});

  const auto weights = [&] {
    return rig.run(*cpu::prepare_gate(op, rig.context(), cpu::float_kernels(), Isa::generic), {op.x}, {op.weights}, {{1}, {}, 1});
  };
  op.scoring = Scoring::softmax;
  op.routed_scaling_factor = 2;
  CHECK(weights() == std::vector<float>{0.25f, 0.25f});
  op.norm_topk_prob = true;
  CHECK(weights() == std::vector<float>{1, 1});
  op.bias = rig.vector(8, 1);  // selection only: the weights stay
  CHECK(weights() == std::vector<float>{1, 1});

  op.num_experts_per_tok = 9;
  CHECK_THROWS_AS(cpu::prepare_gate(op, rig.context(), cpu::float_kernels(), Isa::generic), Error);
}

TEST_CASE("gate rows stand alone") {
  Rig rig(cpu::float_kernels());
  Gate op;
  op.x = rig.value(1000);
  op.norm = {rig.vector(1000, 2, 1), 1e-5f};
  op.weight = rig.matrix(DType::bf16, 1, 72, 1000, 1);
  op.bias = rig.vector(72, 3);
  op.n_routed_experts = 72, op.num_experts_per_tok = 5, op.n_group = 6, op.topk_group = 3;
  op.scoring = Scoring::sigmoid, op.group_score = GroupScore::top2_sum, op.norm_topk_prob = true;
  op.ids = rig.value(5), op.weights = rig.value(5);
  const auto context = rig.context();
  check_rows_stand_alone(rig, [&](Isa isa) { return cpu::prepare_gate(op, context, cpu::float_kernels(), isa); }, {op.x},
                         {op.weights, op.ids});
}

TEST_CASE("experts rows stand alone, with and without a shared expert") {
  for (bool shared : {false, true}) {
    Rig rig(cpu::float_kernels());
    Experts op;
    op.x = op.residual = op.out = rig.value(400);
    if (!shared) op.residual = kNone;
    op.norm = {rig.vector(400, 2, 1), 1e-5f};
    op.n_routed_experts = 11, op.num_experts_per_tok = 3;
    op.gate = rig.matrix(DType::f16, 11, 90, 400, 3);
    op.up = rig.matrix(DType::f16, 11, 90, 400, 4);
    op.down = rig.matrix(DType::f8_e4m3, 11, 400, 90, 5);
    if (shared) {
      op.shared_gate = rig.matrix(DType::bf16, 1, 130, 400, 6);
      op.shared_up = rig.matrix(DType::bf16, 1, 130, 400, 7);
      op.shared_down = rig.matrix(DType::f32, 1, 400, 130, 8);
    }
    op.ids = rig.value(3), op.weights = rig.value(3);
    static ValueId ids;
    ids = op.ids;
    rig.input = [](ValueId value, std::int64_t, std::int32_t row) {
      if (value != ids) return std::vector<float>{};
      std::vector<float> x;
      for (std::int32_t j = 0; j < 3; ++j) x.push_back(std::bit_cast<float>((row % 4 + j * 3)));
      return x;
    };
    const auto context = rig.context();
    const auto prepare = [&](Isa isa) { return cpu::prepare_experts(op, context, cpu::float_kernels(), isa); };
    check_rows_stand_alone(rig, prepare, {op.x, op.ids, op.weights}, {op.out});

    rig.input = [](ValueId value, std::int64_t, std::int32_t) {
      if (value != ids) return std::vector<float>{};
      return std::vector<float>{std::bit_cast<float>(1), std::bit_cast<float>(11), std::bit_cast<float>(2)};
    };
    CHECK_THROWS_AS(rig.run(*prepare(Isa::generic), {op.x, op.ids, op.weights}, {op.out}, {{0}, {}, 1}), Error);
  }
}
