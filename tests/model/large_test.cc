// The real DeepSeek-V3.1 by its shapes alone: 671 billion parameters in FP8, 91,000 tensors.
#include <cmath>

#include "lib/graph/graph.h"
#include "lib/model/spec.h"
#include "tests/catch.h"
#include "tests/model/made.h"

using namespace dsv31;
using namespace dsv31::model;

namespace {

const std::string kConfig = R"({"architectures":["DeepseekV3ForCausalLM"],"attention_bias":false,"first_k_dense_replace":3,
  "hidden_act":"silu","hidden_size":7168,"intermediate_size":18432,"kv_lora_rank":512,"max_position_embeddings":163840,
  "model_type":"deepseek_v3","moe_intermediate_size":2048,"moe_layer_freq":1,"n_group":8,
  "n_routed_experts":256,"n_shared_experts":1,
  "norm_topk_prob":true,"num_attention_heads":128,"num_experts_per_tok":8,"num_hidden_layers":61,"num_key_value_heads":128,
  "num_nextn_predict_layers":1,"q_lora_rank":1536,"qk_nope_head_dim":128,"qk_rope_head_dim":64,
  "quantization_config":{"activation_scheme":"dynamic","fmt":"e4m3","quant_method":"fp8","scale_fmt":"ue8m0",
  "weight_block_size":[128,128]},
  "rms_norm_eps":1e-06,"rope_scaling":{"beta_fast":32,"beta_slow":1,"factor":40,"mscale":1.0,"mscale_all_dim":1.0,
  "original_max_position_embeddings":4096,"type":"yarn"},"rope_theta":10000,"routed_scaling_factor":2.5,"scoring_func":"sigmoid",
  "tie_word_embeddings":false,"topk_group":4,"topk_method":"noaux_tc","v_head_dim":128,"vocab_size":129280})";

void fp8(made::Hf& hf, const std::string& name, std::int64_t rows, std::int64_t cols) {
  hf.tensor(name + ".weight", Shape(rows, cols), DType::f8_e4m3);
  hf.tensor(name + ".weight_scale_inv", Shape((rows + 127) / 128, (cols + 127) / 128));
}

void ffn(made::Hf& hf, const std::string& name, std::int64_t width) {
  fp8(hf, name + ".gate_proj", width, 7168);
  fp8(hf, name + ".up_proj", width, 7168);
  fp8(hf, name + ".down_proj", 7168, width);
}

made::Hf v31() {
  made::Hf hf(kConfig);
  hf.tensor("model.embed_tokens.weight", Shape(129280, 7168), DType::bf16)
      .tensor("lm_head.weight", Shape(129280, 7168), DType::bf16)
      .tensor("model.norm.weight", Shape(7168), DType::bf16);
  for (int i = 0; i < 61; ++i) {
    const std::string l = "model.layers." + std::to_string(i) + ".", a = l + "self_attn.";
    hf.tensor(l + "input_layernorm.weight", Shape(7168), DType::bf16)
        .tensor(l + "post_attention_layernorm.weight", Shape(7168), DType::bf16)
        .tensor(a + "q_a_layernorm.weight", Shape(1536), DType::bf16)
        .tensor(a + "kv_a_layernorm.weight", Shape(512), DType::bf16);
    fp8(hf, a + "q_a_proj", 1536, 7168);
    fp8(hf, a + "q_b_proj", 24576, 1536);
    fp8(hf, a + "kv_a_proj_with_mqa", 576, 7168);
    fp8(hf, a + "kv_b_proj", 32768, 512);
    fp8(hf, a + "o_proj", 7168, 16384);
    if (i < 3) {
      ffn(hf, l + "mlp", 18432);
      continue;
    }
    hf.tensor(l + "mlp.gate.weight", Shape(256, 7168), DType::bf16).tensor(l + "mlp.gate.e_score_correction_bias", Shape(256));
    for (int e = 0; e < 256; ++e) ffn(hf, l + "mlp.experts." + std::to_string(e), 2048);
    ffn(hf, l + "mlp.shared_experts", 2048);
  }
  return hf;
}

}  // namespace

TEST_CASE("DeepSeek-V3.1 in FP8 binds whole") {
  made::Hf hf = v31();
  const io::Checkpoint& c = hf.open();
  CHECK(c.tensors.size() > 90'000);
  const ModelSpec spec = build_model(c);
  CHECK(spec.extra_tensors.empty());
  CHECK(spec.graph.ops.size() == 1 + 1 + 61 * 4 + 3 + 58 * 2 + 1);
  std::uint64_t fp8_bytes = 0, scales = 0;
  for (const MatrixSource& m : spec.matrices)
    if (m.stored == DType::f8_e4m3) {
      CHECK(m.desc.type == DType::f8_e4m3);  // heads of 128 rows meet the scale blocks: kv_b stays FP8 too
      fp8_bytes += m.stored_bytes();
      scales += m.scale_count();
    }
  // attention 61 * 187,105,280; dense 3 * 396,361,728; experts 58 * 257 * 44,040,192
  CHECK(fp8_bytes == 669'065'609'216);
  std::uint64_t grid = 0;
  for (const io::TensorInfo& t : c.tensors)
    if (t.name.ends_with("_scale_inv")) grid += t.bytes / 4;
  CHECK(scales == grid);
  for (const Op& op : spec.graph.ops)
    if (const auto* a = std::get_if<MlaAttention>(&op)) CHECK(std::fabs(a->scale - 0.135233779) < 1e-8);
}

TEST_CASE("the activations of DeepSeek-V3.1 share one arena little larger than its widest moment") {
  made::Hf hf = v31();
  const ModelSpec spec = build_model(hf.open());
  // x 7168, angles 64, and while attention runs q 24576, [latent | k_pe] 576, heads 16384
  CHECK(graph::plan_arena(spec.graph, 512, 1).bytes == std::size_t{512} * 4 * (7168 + 64 + 24576 + 576 + 16384));
}

TEST_CASE("an FP8 kv_b on the borders of scale blocks is transposed with its scales") {
  // Two heads of 128 + 128 rows over a latent of 256: scale (r, c) is 2^r * 3^c, the weight at (r, c) is 1 for even r + c,
  // else 1.5.
  made::Hf hf(R"({"model_type":"deepseek_v3","vocab_size":8,"hidden_size":4,"intermediate_size":4,"num_hidden_layers":1,
    "num_attention_heads":2,"q_lora_rank":null,"kv_lora_rank":256,"qk_nope_head_dim":128,"qk_rope_head_dim":2,"v_head_dim":128,
    "n_routed_experts":null})");
  const std::string l = "model.layers.0.";
  std::string w(512 * 256, '\0');
  for (std::size_t r = 0; r < 512; ++r)
    for (std::size_t k = 0; k < 256; ++k) w[r * 256 + k] = static_cast<char>((r + k) % 2 == 0 ? 0x38 : 0x3C);
  std::vector<float> grid(4 * 2);
  for (std::size_t r = 0; r < 4; ++r)
    for (std::size_t k = 0; k < 2; ++k) grid[r * 2 + k] = std::ldexp(k == 0 ? 1.0f : 3.0f, static_cast<int>(r));
  hf.tensor("model.embed_tokens.weight", Shape(8, 4))
      .tensor("model.norm.weight", Shape(4))
      .tensor("lm_head.weight", Shape(8, 4))
      .tensor(l + "input_layernorm.weight", Shape(4))
      .tensor(l + "post_attention_layernorm.weight", Shape(4))
      .tensor(l + "self_attn.q_proj.weight", Shape(260, 4))
      .tensor(l + "self_attn.kv_a_proj_with_mqa.weight", Shape(258, 4))
      .tensor(l + "self_attn.kv_a_layernorm.weight", Shape(256))
      .tensor(l + "self_attn.o_proj.weight", Shape(4, 256))
      .tensor(l + "mlp.gate_proj.weight", Shape(4, 4))
      .tensor(l + "mlp.up_proj.weight", Shape(4, 4))
      .tensor(l + "mlp.down_proj.weight", Shape(4, 4))
      .tensor(l + "self_attn.kv_b_proj.weight", Shape(512, 256), DType::f8_e4m3, w)
      .tensor(l + "self_attn.kv_b_proj.weight_scale_inv", Shape(4, 2), DType::f32,
              std::string(reinterpret_cast<const char*>(grid.data()), grid.size() * 4));
  const io::Checkpoint& c = hf.open();
  const ModelSpec spec = build_model(c);
  const MlaAttention& mla = std::get<MlaAttention>(spec.graph.ops[3]);
  const MatrixSource &k_b = spec.matrices[static_cast<std::size_t>(mla.k_b)],
                     &v_b = spec.matrices[static_cast<std::size_t>(mla.v_b)];
  REQUIRE(k_b.desc.type == DType::f8_e4m3);
  REQUIRE(k_b.scale_count() == 4);  // (2, 2, 1)
  std::vector<float> k_scales(4), v_scales(4);
  read_scales(c, k_b, k_scales.data());
  read_scales(c, v_b, v_scales.data());
  CHECK(k_scales == std::vector<float>{1, 3, 4, 12});
  CHECK(v_scales == std::vector<float>{2, 6, 8, 24});
  std::string head(256 * 128, '\0');
  read_rows(c, k_b, 1, 0, 256, reinterpret_cast<std::byte*>(head.data()));
  bool right = true;
  for (std::size_t k = 0; k < 256; ++k)
    for (std::size_t r = 0; r < 128; ++r) right = right && head[k * 128 + r] == w[(256 + r) * 256 + k];
  CHECK(right);
}
