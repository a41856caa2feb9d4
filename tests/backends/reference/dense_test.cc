// Embed, Linear, GatedFfn and Head against values worked out by hand.
#include <cstring>

#include "tests/backends/reference/expect.h"

using namespace conformance;

TEST_CASE("embed takes the token's row times the scale") {
  CaseBuilder b("embed", {{0, 2}});
  b.tokens({2, 0});
  const MatrixId w = b.matrix_of(3, 2, {1, 2, 3, 4, 5, 6});
  expect(run_reference(b.finish(Embed{.weight = w, .scale = 0.5f, .out = b.output(2)}, 0)).outputs[0], {2.5, 3, 0.5, 1});
}

TEST_CASE("embed refuses a token outside the table") {
  CaseBuilder b("embed", {{0, 1}});
  b.tokens({3});
  const MatrixId w = b.matrix_of(3, 2, {1, 2, 3, 4, 5, 6});
  const OpCase c = b.finish(Embed{.weight = w, .out = b.output(2)}, 0);
  CHECK_THROWS_AS(run_reference(c), Error);
}

TEST_CASE("linear multiplies by the weight, adds bias and residual") {
  CaseBuilder b("linear", {{0, 2}});
  const ValueId x = b.input_of(2, {1, -1, 2, 0}), residual = b.input_of(3, {0.5f, 0.25f, 0, 1, 1, 1});
  const MatrixId w = b.matrix_of(3, 2, {1, 2, 3, 4, 5, 6});
  const VectorId bias = b.vector_of({10, 20, 30});
  const Linear op{.x = x, .parts = {{w, bias, b.output(3)}}, .residual = residual};
  expect(run_reference(b.finish(op, 0)).outputs[0], {9.5, 19.25, 29, 13, 27, 41});
}

TEST_CASE("linear may add to the value it came from") {
  CaseBuilder b("linear in place", {{0, 1}});
  const ValueId x = b.inout(b.input_of(2, {3, 4}));
  const Linear op{.x = x, .parts = {{b.matrix_of(2, 2, {0, 1, 1, 0}), kNone, x}}, .residual = x};
  expect(run_reference(b.finish(op, 0)).outputs[0], {7, 7});
}

TEST_CASE("linear has several parts that share the norm of the input") {
  CaseBuilder b("linear parts", {{0, 1}});
  const ValueId x = b.input_of(2, {3, 4});  // mean square 12.5
  const Norm norm{b.vector_of({1, 2}), 0};
  const Linear op{
      .x = x,
      .norm = norm,
      .parts = {{b.matrix_of(1, 2, {1, 0}), kNone, b.output(1)}, {b.matrix_of(2, 2, {0, 1, 1, 1}), kNone, b.output(2)}}};
  const RunResult r = run_reference(b.finish(op, 0));
  expect(r.outputs[0], {0.848528137});               // 3 / sqrt(12.5)
  expect(r.outputs[1], {2.262741700, 3.111269837});  // 2 * 4 / sqrt(12.5), and the sum
}

TEST_CASE("linear adds eps to the mean square") {
  CaseBuilder b("linear eps", {{0, 1}});
  const ValueId x = b.input_of(2, {3, 4});
  const Linear op{.x = x, .norm = {b.vector_of({1, 1}), 3.5f}, .parts = {{b.matrix_of(2, 2, {1, 0, 0, 1}), kNone, b.output(2)}}};
  expect(run_reference(b.finish(op, 0)).outputs[0], {0.75, 1});  // sqrt(12.5 + 3.5) = 4
}

TEST_CASE("linear norms the product before the residual") {
  CaseBuilder b("linear post norm", {{0, 1}});
  const ValueId x = b.input_of(1, {1}), residual = b.input_of(2, {100, 200});
  const Norm post{b.vector_of({1, 1}), 3.5f};
  const Linear op{.x = x, .parts = {{b.matrix_of(2, 1, {3, 4}), kNone, b.output(2)}}, .post_norm = post, .residual = residual};
  expect(run_reference(b.finish(op, 0)).outputs[0], {100.75, 201});
}

TEST_CASE("block scales multiply the FP8 weights of their 128 x 128 block") {
  CaseBuilder b("fp8", {{0, 1}});
  const ValueId x = b.input_of(129, std::vector<float>(129, 1));
  const MatrixId w = b.matrix(DType::f8_e4m3, 1, 129, 129, true);
  OpCase c = b.finish(Linear{.x = x, .parts = {{w, kNone, b.output(129)}}}, 0);
  std::memset(c.weights[0].data(), 0x38, c.weights[0].size());  // 1.0
  c.scales[0] = {2, 10, 3, 0.5f};
  const std::vector<float> out = run_reference(c).outputs[0];
  CHECK(out[0] == 266);  // 128 * 2 + 10
  CHECK(out[127] == 266);
  CHECK(out[128] == 384.5f);  // 128 * 3 + 0.5
}

TEST_CASE("gated feed-forward multiplies the activated gate with up") {
  CaseBuilder b("ffn", {{0, 1}});
  const ValueId x = b.input_of(1, {1}), residual = b.input_of(1, {10});
  const MatrixId gate = b.matrix_of(2, 1, {1, -2}), up = b.matrix_of(2, 1, {2, 5}), down = b.matrix_of(1, 2, {3, 7});
  SECTION("silu") {  // silu(1) = 0.7310585786, silu(-2) = -0.2384058440
    const GatedFfn op{.x = x, .gate = gate, .up = up, .down = down, .residual = residual, .out = b.output(1)};
    expect(run_reference(b.finish(op, 0)).outputs[0], {10 + 3 * 0.7310585786 * 2 - 7 * 0.2384058440 * 5});
  }
  SECTION("gelu_tanh") {  // gelu(1) = 0.8411919906, gelu(-2) = -0.0454023059
    const GatedFfn op{.x = x, .gate = gate, .up = up, .down = down, .activation = Activation::gelu_tanh, .out = b.output(1)};
    expect(run_reference(b.finish(op, 0)).outputs[0], {3 * 0.8411919906 * 2 - 7 * 0.0454023059 * 5});
  }
  SECTION("biases, norm and post norm") {
    // norm: 1 -> 4; gate 4 - 3 = 1, -8 + 6 = -2; up 8 - 6 = 2, 20 - 15 = 5; down - 4; post norm: y / |y| * 2
    const GatedFfn op{.x = x,
                      .norm = {b.vector_of({4}), 0},
                      .gate = gate,
                      .up = up,
                      .down = down,
                      .gate_bias = b.vector_of({-3, 6}),
                      .up_bias = b.vector_of({-6, -15}),
                      .down_bias = b.vector_of({4}),
                      .post_norm = {b.vector_of({2}), 0},
                      .residual = residual,
                      .out = b.output(1)};
    expect(run_reference(b.finish(op, 0)).outputs[0], {12});  // 4.386 - 8.344 + 4 = 0.042 > 0
  }
}

TEST_CASE("head makes logits of the wanted rows only, capped") {
  CaseBuilder b("head", {{0, 3}});
  const ValueId x = b.input_of(2, {1, 0, 7, 7, 0, 2});
  const MatrixId w = b.matrix_of(3, 2, {1, 2, 3, 4, 5, 6});
  b.logit_rows({0, 2});
  SECTION("plain") {
    const Head op{.x = x, .weight = w, .out = b.output(3, true)};
    expect(run_reference(b.finish(op, 0)).outputs[0], {1, 3, 5, 4, 8, 12});
  }
  SECTION("bias and cap") {  // 2 tanh(s / 2) of 2, 4, 6; 5, 9, 13
    const Head op{.x = x, .weight = w, .bias = b.vector_of({1, 1, 1}), .softcap = 2, .out = b.output(3, true)};
    expect(run_reference(b.finish(op, 0)).outputs[0],
           {1.5231883119, 1.9280551602, 1.9901095075, 1.9732285963, 1.9995064158, 1.9999909592});
  }
}
