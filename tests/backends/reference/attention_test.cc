// Angles, RopeCache, Attention and MlaAttention against values worked out by hand.
#include "tests/backends/reference/expect.h"

using namespace conformance;

namespace {
const float kLn3 = 1.09861229f;
constexpr CacheDesc kOneHead{.num_key_value_heads = 1, .head_dim = 1};
}  // namespace

TEST_CASE("angles are cosines, then sines, of position times frequency") {
  CaseBuilder b("angles", {{0, 1}, {2, 1}});
  const Angles op{.inv_freq = {1, 0.5f}, .scale = 2, .out = b.output(4)};
  expect(run_reference(b.finish(op, 0)).outputs[0],
         {2, 2, 0, 0, -0.8322936731, 1.0806046117, 1.8185948537, 1.6829419696});  // cos 2, cos 1, sin 2, sin 1, twice
}

TEST_CASE("rope turns pairs of the first rope_dim values") {
  CaseBuilder b("rope", {{0, 1}});
  b.cache(0, {.num_key_value_heads = 1, .head_dim = 4}, false);
  const ValueId q = b.inout(b.input_of(8, {1, 2, 3, 4, 5, 6, 7, 8}));  // two heads
  const ValueId k = b.input_of(4, {10, 20, 30, 40}), v = b.input_of(4, {-1, -2, -3, -4});
  RopeCache op{.num_attention_heads = 2, .num_key_value_heads = 1, .head_dim = 4, .rope_dim = 4, .q = q, .k = k, .v = v};
  SECTION("half_split: pair 0 is (x0, x2), by 90 degrees") {
    op.angles = b.input_of(4, {0, 1, 1, 0});
    const RunResult r = run_reference(b.finish(op, 0));
    expect(r.outputs[0], {-3, 2, 1, 4, -7, 6, 5, 8});
    expect(r.cached, {-30, 20, 10, 40, -1, -2, -3, -4});
  }
  SECTION("interleaved: pair 0 is (x0, x1)") {
    op.pairing = Pairing::interleaved;
    op.angles = b.input_of(4, {0, 1, 1, 0});
    const RunResult r = run_reference(b.finish(op, 0));
    expect(r.outputs[0], {-2, 1, 3, 4, -6, 5, 7, 8});
    expect(r.cached, {-20, 10, 30, 40, -1, -2, -3, -4});
  }
  SECTION("a part of the head: the rest stays") {
    op.rope_dim = 2;
    op.angles = b.input_of(2, {0, 1});
    const RunResult r = run_reference(b.finish(op, 0));
    expect(r.outputs[0], {-2, 1, 3, 4, -6, 5, 7, 8});
    expect(r.cached, {-20, 10, 30, 40, -1, -2, -3, -4});
  }
  SECTION("norm comes before the turn") {
    op.angles = b.input_of(4, {0, 1, 1, 0});
    op.q_norm = {b.vector_of({1, 1, 2, 1}), 1.5f};   // mean squares 7.5 and 43.5: 1/3 and 1/sqrt(45)
    op.k_norm = {b.vector_of({10, 1, 1, 1}), 2850};  // mean square 750: 1/60
    const RunResult r = run_reference(b.finish(op, 0));
    expect(r.outputs[0], {-2, 2 / 3., 1 / 3., 4 / 3., -2.0869967790, 0.8944271910, 0.7453559925, 1.1925695880});
    expect(r.cached, {-0.5, 1 / 3., 5 / 3., 2 / 3., -1, -2, -3, -4});
  }
}

TEST_CASE("the cache keeps float16 to nearest even where it is float16") {
  CaseBuilder b("rope f16", {{0, 1}});
  b.cache(0, {.num_key_value_heads = 1, .head_dim = 2}, false);
  const ValueId q = b.inout(b.input_of(2, {1, 1}));
  const ValueId k = b.input_of(2, {1.00048828125f, 0.1f}),
                v = b.input_of(2, {1.00146484375f, 65504});  // ties at half a step of 2^-10
  const RopeCache op{.num_attention_heads = 1,
                     .num_key_value_heads = 1,
                     .head_dim = 2,
                     .rope_dim = 2,
                     .angles = b.input_of(2, {1, 0}),
                     .q = q,
                     .k = k,
                     .v = v};
  expect(run_reference(b.finish(op, 0), DType::f16).cached, {1, 0.0999755859375, 1.001953125, 65504});
}

TEST_CASE("attention weighs values by the softmax of the scores") {
  CaseBuilder b("attention", {{1, 1}});
  b.cache(0, kOneHead, true);
  b.past({{0, 4, kLn3, 8}});  // (k, v) of positions 0 and 1: weights 1/4 and 3/4
  const Attention op{.num_attention_heads = 2,
                     .num_key_value_heads = 1,
                     .head_dim = 1,
                     .scale = 0.5f,
                     .q = b.input_of(2, {2, 0}),
                     .out = b.output(2)};
  expect(run_reference(b.finish(op, 0)).outputs[0], {7, 6});  // the second head scores 0 and 0
}

TEST_CASE("a query sees no later position of its own step") {
  CaseBuilder b("causal", {{0, 2}});
  b.cache(0, kOneHead, true);
  b.past({{0, 4, kLn3, 8}});
  const Attention op{
      .num_attention_heads = 1, .num_key_value_heads = 1, .head_dim = 1, .q = b.input_of(1, {1, 1}), .out = b.output(1)};
  expect(run_reference(b.finish(op, 0)).outputs[0], {4, 7});
}

TEST_CASE("a window of two sees the row's own key and the one before") {
  CaseBuilder b("window", {{0, 4}});
  b.cache(0, {.num_key_value_heads = 1, .head_dim = 1, .window = 2}, true);
  b.past({{0, 4, kLn3, 8, 0, 16, 0, 32}});
  const Attention op{.num_attention_heads = 1,
                     .num_key_value_heads = 1,
                     .head_dim = 1,
                     .window = 2,
                     .q = b.input_of(1, {1, 1, 1, 1}),
                     .out = b.output(1)};
  expect(run_reference(b.finish(op, 0)).outputs[0], {4, 7, 10, 24});
}

TEST_CASE("soft cap bounds a score before the softmax") {
  CaseBuilder b("softcap", {{1, 1}});
  b.cache(0, kOneHead, true);
  b.past({{0, 0, 1e6f, 1}});
  const Attention op{.num_attention_heads = 1,
                     .num_key_value_heads = 1,
                     .head_dim = 1,
                     .softcap = kLn3,
                     .q = b.input_of(1, {1}),
                     .out = b.output(1)};
  expect(run_reference(b.finish(op, 0)).outputs[0], {0.75});
}

TEST_CASE("consecutive heads share a key-value head, and sequences do not see each other") {
  CaseBuilder b("groups", {{0, 1}, {1, 1}});
  b.cache(0, {.num_key_value_heads = 2, .head_dim = 1}, true);
  b.past({{0, 0, 1, 2}, {0, 0, 10, 20, 0, 0, 30, 40}});  // (k0, k1, v0, v1) a position
  const Attention op{.num_attention_heads = 4,
                     .num_key_value_heads = 2,
                     .head_dim = 1,
                     .q = b.input_of(4, std::vector<float>(8, 1)),
                     .out = b.output(4)};
  expect(run_reference(b.finish(op, 0)).outputs[0], {1, 1, 2, 2, 20, 20, 30, 30});
}

TEST_CASE("latent attention scores and sums in the latent") {
  CaseBuilder b("mla", {{1, 1}});
  b.cache(0, {.latent = 3}, false);
  b.past({{0, 0, 0}});  // position 0: latent 0, k_pe (0, 0)
  const MatrixId k_b = b.matrix_of(1, 1, {2}), v_b = b.matrix_of(1, 1, {3});
  MlaAttention op{.num_attention_heads = 1,
                  .kv_lora_rank = 1,
                  .qk_nope_head_dim = 1,
                  .qk_rope_head_dim = 2,
                  .v_head_dim = 1,
                  .k_b = k_b,
                  .v_b = v_b};
  op.angles = b.input_of(2, {0, 1});  // 90 degrees
  op.c = b.inout(b.input_of(3, {5, 1, 2}), false);
  op.out = b.output(1);
  SECTION("through k_b: score 2 * q * latent = ln 3") {
    op.scale = 0.1f;
    op.q = b.inout(b.input_of(3, {kLn3, 0, 0}), false);
    const RunResult r = run_reference(b.finish(op, 0));
    expect(r.outputs[0], {3 * 0.75 * 5});
    expect(r.cached, {5, -2, 1});
  }
  SECTION("through the turned pe part: (3, 4) -> (-4, 3), k (-2, 1): 11") {
    op.scale = kLn3 / 11;
    op.q = b.inout(b.input_of(3, {0, 3, 4}), false);
    expect(run_reference(b.finish(op, 0)).outputs[0], {3 * 0.75 * 5});
  }
  SECTION("the latent is normed, k_pe is not") {
    op.kv_norm = {b.vector_of({7}), 24};  // 5 / sqrt(25 + 24) * 7
    op.q = b.inout(b.input_of(3, {0, 0, 0}), false);
    const RunResult r = run_reference(b.finish(op, 0));
    expect(r.outputs[0], {3 * 0.5 * 5});
    expect(r.cached, {5, -2, 1});
  }
}
