// The reference against recorded results of other formulations of the same ops; record_goldens.py says which.
#include <bit>
#include <fstream>

#include "tests/backends/reference/expect.h"

using namespace conformance;

namespace {

class Draw {
 public:
  explicit Draw(std::uint32_t seed) : state_(seed) {}
  std::vector<float> operator()(std::int64_t n, float scale = 1) {
    std::vector<float> out(static_cast<std::size_t>(n));
    for (float& x : out) {
      state_ = state_ * 1664525u + 1013904223u;
      x = (static_cast<float>((state_ >> 8) & 0xffff) / 32768 - 1) * scale;
    }
    return out;
  }

 private:
  std::uint32_t state_;
};

std::vector<double> golden(const std::string& wanted) {
  std::ifstream file(DSV31_TEST_DATA "/reference_goldens.txt");
  std::string name;
  std::size_t n = 0;
  while (file >> name >> n) {
    std::vector<double> values(n);
    for (double& v : values) file >> v;
    if (name == wanted) return values;
  }
  FAIL("no golden " << wanted);
  return {};
}

// Sums cancel, so that a result is as close as its largest neighbours' roundings: the output and the inputs are float32.
void expect_golden(const std::vector<float>& got, const std::string& name) {
  const std::vector<double> want = golden(name);
  REQUIRE(got.size() == want.size());
  double largest = 0;
  for (const double w : want) largest = std::max(largest, std::abs(w));
  for (std::size_t i = 0; i < want.size(); ++i) {
    CAPTURE(name, i, got[i], want[i]);
    CHECK(std::abs(static_cast<double>(got[i]) - want[i]) <= 4 * 0x1p-24 * largest);
  }
}

std::vector<float> angles(std::int64_t n, std::int64_t first, const std::vector<float>& inv_freq) {
  CaseBuilder b("angles", {{first, n}});
  Angles op;
  op.inv_freq = inv_freq;
  op.out = b.output(2 * static_cast<std::int64_t>(inv_freq.size()));
  return run_reference(b.finish(op, 0)).outputs[0];
}

OpCase attention(std::int64_t window, float softcap) {
  Draw draw(2);
  CaseBuilder b("attention", {{6, 4}});
  const ValueId q = b.input_of(48, draw(4 * 48, 4));
  b.cache(0, {.num_key_value_heads = 2, .head_dim = 8}, true);
  b.past({draw(10 * 32)});
  const Attention op{.num_attention_heads = 6,
                     .num_key_value_heads = 2,
                     .head_dim = 8,
                     .scale = 0.35f,
                     .window = window,
                     .softcap = softcap,
                     .q = q,
                     .out = b.output(48)};
  return b.finish(op, 0);
}

}  // namespace

TEST_CASE("rope agrees with rotate_half") {
  Draw draw(1);
  CaseBuilder b("rope", {{5, 3}});
  b.cache(0, {.num_key_value_heads = 2, .head_dim = 8}, false);
  RopeCache op{.num_attention_heads = 4, .num_key_value_heads = 2, .head_dim = 8, .rope_dim = 8};
  op.q = b.inout(b.input_of(32, draw(3 * 32)));
  op.k = b.input_of(16, draw(3 * 16));
  op.v = b.input_of(16, draw(3 * 16));
  op.q_norm = {b.vector_of(draw(8)), 1e-5f};
  op.k_norm = {b.vector_of(draw(8)), 1e-5f};
  op.angles = b.input_of(8, angles(3, 5, {1, 0.5f, 0.25f, 0.125f}));
  const RunResult r = run_reference(b.finish(op, 0));
  expect_golden(r.outputs[0], "rope_q");
  expect_golden(r.cached, "rope_cached");
}

TEST_CASE("attention agrees with masked scores over repeated keys") {
  expect_golden(run_reference(attention(0, 0)).outputs[0], "attention");
  expect_golden(run_reference(attention(3, 2)).outputs[0], "attention_window_softcap");
}

TEST_CASE("absorbed latent attention agrees with expanded keys and values") {
  Draw draw(3);
  CaseBuilder b("mla", {{0, 5}});
  b.cache(0, {.latent = 10}, false);
  MlaAttention op{
      .num_attention_heads = 3, .kv_lora_rank = 6, .qk_nope_head_dim = 4, .qk_rope_head_dim = 4, .v_head_dim = 5, .scale = 0.5f};
  op.q = b.inout(b.input_of(24, draw(5 * 24, 2)), false);
  op.c = b.inout(b.input_of(10, draw(5 * 10)), false);
  op.k_b = b.matrix_of(6, 4, draw(3 * 24));
  op.v_b = b.matrix_of(5, 6, draw(3 * 30));
  op.kv_norm = {b.vector_of(draw(6)), 1e-6f};
  op.angles = b.input_of(4, angles(5, 0, {1, 0.25f}));
  op.out = b.output(15);
  expect_golden(run_reference(b.finish(op, 0)).outputs[0], "mla");
}

TEST_CASE("the gate agrees with masks and sorting") {
  Draw draw(4);
  CaseBuilder b("gate", {{0, 6}});
  Gate op;
  op.x = b.input_of(10, draw(60));
  op.weight = b.matrix_of(16, 10, draw(160));
  op.bias = b.vector_of(draw(16, 0.25f));
  op.n_routed_experts = 16;
  op.num_experts_per_tok = 3;
  op.n_group = 4;
  op.topk_group = 2;
  op.scoring = Scoring::sigmoid;
  op.group_score = GroupScore::top2_sum;
  op.norm_topk_prob = true;
  op.routed_scaling_factor = 2.5f;
  op.ids = b.output(3);
  op.weights = b.output(3);
  const RunResult r = run_reference(b.finish(op, 0));
  std::vector<float> ids;
  for (const float id : r.outputs[0]) ids.push_back(static_cast<float>(std::bit_cast<std::int32_t>(id)));
  expect_golden(ids, "gate_ids");
  expect_golden(r.outputs[1], "gate_weights");
}

TEST_CASE("experts agree with one token at a time") {
  Draw draw(5);
  CaseBuilder b("experts", {{0, 4}});
  Experts op;
  op.x = b.inout(b.input_of(6, draw(24)));
  op.norm = {b.vector_of(draw(6)), 1e-6f};
  op.gate = b.matrix_of(5, 6, draw(4 * 30));
  op.up = b.matrix_of(5, 6, draw(4 * 30));
  op.down = b.matrix_of(6, 5, draw(4 * 30));
  op.shared_gate = b.matrix_of(7, 6, draw(42));
  op.shared_up = b.matrix_of(7, 6, draw(42));
  op.shared_down = b.matrix_of(6, 7, draw(42));
  std::vector<float> ids;
  for (const std::int32_t e : {0, 1, 1, 3, 0, 3, 2, 3}) ids.push_back(std::bit_cast<float>(e));
  op.ids = b.input_of(2, ids);
  op.weights = b.input_of(2, draw(8));
  op.n_routed_experts = 4;
  op.num_experts_per_tok = 2;
  op.residual = op.out = op.x;
  expect_golden(run_reference(b.finish(op, 0)).outputs[0], "experts");
}
