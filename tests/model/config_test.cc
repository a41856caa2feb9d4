// Hyperparameters from strangers: every number has a range, and what is wrong is named by its key.
#include "lib/model/config.h"

#include <limits>

#include "lib/model/spec.h"
#include "tests/catch.h"
#include "tests/model/made.h"

using namespace dsv31;
using namespace dsv31::model;

namespace {

io::Json config_of(const std::string& name) {
  return io::parse_json(made::file_text(made::data("random/" + name + "/config.json")), "config.json");
}

// Sets one key of a fixture's config and gives the failure.
std::string hf(const std::string& name, std::string_view key, io::Json value, Code code = Code::format) {
  io::Json json = config_of(name);
  made::set(json, key, std::move(value));
  return made::failure([&] { config_from_hf(json); }, code);
}

std::string gguf(const made::Gguf& file, Code code = Code::format) {
  return made::failure([&] { config_from_gguf(file.open().metadata); }, code);
}

}  // namespace

TEST_CASE("config.json of DeepSeek-V3 is read in its own names") {
  const Config c = config_from_hf(config_of("deepseek_v3"));
  CHECK(c.model_type == "deepseek_v3");
  CHECK(c.vocab_size == 320);
  CHECK(c.q_lora_rank == 48);
  CHECK(c.kv_lora_rank == 32);
  CHECK(c.head_dim == 24);  // 16 + 8, not the rope part that config.json calls head_dim
  CHECK(c.v_head_dim == 24);
  CHECK(c.scoring_func == Scoring::sigmoid);
  CHECK(c.group_score == GroupScore::top2_sum);
  CHECK(c.n_group == 4);
  CHECK(c.topk_group == 2);
  CHECK(c.norm_topk_prob);
  CHECK(c.routed_scaling_factor == 2.5);
  CHECK(c.sparse == std::vector<bool>{false, true, true});
  CHECK(c.rope.rope_type == RopeType::yarn);
  CHECK(c.rope.factor == 4);
  CHECK(c.rope.original_max_position_embeddings == 64);
}

TEST_CASE("the same model reads the same from GGUF") {
  const Config c = config_from_gguf(io::open_checkpoint(made::data("random/deepseek_v3/deepseek_v3.gguf")).metadata);
  const Config h = config_from_hf(config_of("deepseek_v3"));
  CHECK(c.head_dim == h.head_dim);
  CHECK(c.qk_nope_head_dim == h.qk_nope_head_dim);
  CHECK(c.v_head_dim == h.v_head_dim);
  CHECK(c.rope.mscale_all_dim == h.rope.mscale_all_dim);
  CHECK(c.group_score == h.group_score);
  CHECK(c.sparse == h.sparse);
  CHECK(c.norm_topk_prob == h.norm_topk_prob);
  CHECK(c.num_attention_heads == h.num_attention_heads);
}

TEST_CASE("rope_scaling of transformers 4 reads like rope_parameters of transformers 5") {
  const io::Json five = config_of("deepseek_v3");
  io::Json four = five;
  made::remove(four, "rope_parameters");
  made::set(four, "rope_theta", 10000);
  made::set(four, "rope_scaling",
            io::parse_json(R"({"type":"yarn","factor":4,"original_max_position_embeddings":64,"beta_fast":32,"beta_slow":1,
                               "mscale":1.0,"mscale_all_dim":1.0})",
                           "test"));
  CHECK(config_from_hf(four).rope == config_from_hf(five).rope);
}

TEST_CASE("absent optional keys take the defaults of the reference") {
  io::Json v2 = config_of("deepseek_v2");
  for (std::string_view key : {"topk_method", "norm_topk_prob", "n_group", "topk_group", "routed_scaling_factor",
                               "first_k_dense_replace", "q_lora_rank", "n_shared_experts"})
    made::remove(v2, key);
  const Config c = config_from_hf(v2);
  CHECK(c.group_score == GroupScore::none);
  CHECK(c.n_group == 1);
  CHECK_FALSE(c.norm_topk_prob);
  CHECK(c.routed_scaling_factor == 1);
  CHECK(c.sparse == std::vector<bool>{true, true, true});
  CHECK(c.q_lora_rank == 1536);
  CHECK(c.n_shared_experts == 2);
  CHECK(config_from_hf(config_of("deepseek_v2_lite")).q_lora_rank == 0);  // null: no low rank
}

TEST_CASE("DeepSeek-V2 neither normalises nor adds a bias, and scores a group by its best expert") {
  io::Json v2 = config_of("deepseek_v2");
  made::set(v2, "norm_topk_prob", true);
  const Config c = config_from_hf(v2);
  CHECK_FALSE(c.norm_topk_prob);
  CHECK_FALSE(c.selection_bias);
  CHECK(c.group_score == GroupScore::max);
  CHECK(c.routed_scaling_factor == 16);
}

TEST_CASE("gemma3 has a rope for each kind of layer") {
  const Config c = config_from_hf(config_of("gemma3"));
  CHECK(c.rope.rope_theta == 1'000'000);
  CHECK(c.rope_local.rope_theta == 10'000);
  CHECK(c.sliding == std::vector<bool>{true, true, true, true, true, false, true});
  CHECK(c.query_pre_attn_scalar == 24);
  io::Json four = config_of("gemma3");  // transformers 4: a linear factor on global layers only
  made::remove(four, "rope_parameters");
  made::remove(four, "layer_types");
  made::set(four, "rope_scaling", io::parse_json(R"({"rope_type":"linear","factor":8.0})", "test"));
  const Config d = config_from_hf(four);
  CHECK(d.rope.rope_type == RopeType::linear);
  CHECK(d.rope.factor == 8);
  CHECK(d.rope.rope_theta == 1'000'000);
  CHECK(d.rope_local == RopeParameters{});
  CHECK(d.sliding == c.sliding);
}

TEST_CASE("a multimodal config is read through its text_config") {
  io::Json outer = io::parse_json(R"({"model_type":"gemma3","text_config":{"hidden_size":2560,"intermediate_size":10240,
    "model_type":"gemma3_text","num_hidden_layers":34,
    "rope_scaling":{"factor":8.0,"rope_type":"linear"},"sliding_window":1024}})",
                                  "test");
  const Config c = config_from_hf(outer);
  CHECK(c.hidden_size == 2560);
  CHECK(c.num_attention_heads == 8);
  CHECK(c.num_key_value_heads == 4);
  CHECK(c.head_dim == 256);
  CHECK(c.vocab_size == 262'208);
  CHECK(c.tie_word_embeddings);
  CHECK(c.window(5) == 0);
  CHECK(c.window(6) == 1024);
}

TEST_CASE("qwen3_moe routes where decoder_sparse_step hits and mlp_only_layers does not") {
  io::Json json = config_of("qwen3_moe");
  CHECK(config_from_hf(json).sparse == std::vector<bool>{true, true, true});
  made::set(json, "decoder_sparse_step", 2);
  CHECK(config_from_hf(json).sparse == std::vector<bool>{false, true, false});
  made::set(json, "mlp_only_layers", io::Json(io::Json::Array{io::Json(1)}));
  CHECK(config_from_hf(json).sparse == std::vector<bool>{false, false, false});
}

TEST_CASE("an architecture that is not built in is unsupported by name") {
  CHECK(made::contains(hf("deepseek_v32", "model_type", "deepseek_v4", Code::unsupported), "\"deepseek_v4\""));
  CHECK(made::contains(hf("llama", "model_type", "mamba2", Code::unsupported), "\"mamba2\""));
  CHECK(made::contains(gguf(made::Gguf().string("general.architecture", "rwkv7"), Code::unsupported), "\"rwkv7\""));
}

TEST_CASE("architectures[0] stands in for a missing model_type") {
  io::Json json = config_of("qwen2");
  made::remove(json, "model_type");
  CHECK(config_from_hf(json).model_type == "qwen2");
}

TEST_CASE("G09 a required key that is missing or of the wrong type is format by key") {
  for (std::string_view key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size"}) {
    io::Json json = config_of("llama");
    made::remove(json, key);
    CHECK(made::contains(made::failure([&] { config_from_hf(json); }, Code::format), key));
    CHECK(made::contains(hf("llama", key, "64"), key));
    CHECK(made::contains(hf("llama", key, 1.5), key));
  }
  CHECK(made::contains(hf("deepseek_v3", "moe_intermediate_size", nullptr), "moe_intermediate_size"));
  for (std::string_view key : {"block_count", "embedding_length", "context_length", "feed_forward_length", "attention.head_count",
                               "attention.layer_norm_rms_epsilon", "attention.kv_lora_rank", "rope.dimension_count",
                               "expert_used_count", "expert_feed_forward_length", "attention.value_length_mla"}) {
    const std::string full = "deepseek2." + std::string(key);
    CHECK(made::contains(gguf(made::deepseek2().without(full)), full));
    CHECK(made::contains(gguf(made::deepseek2().string(full, "64")), full));
  }
  CHECK(made::contains(gguf(made::deepseek2().without("general.architecture")), "general.architecture"));
}

TEST_CASE("G10 zero and huge hyperparameters are format by key, and nothing is divided by them") {
  for (std::string_view key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "vocab_size",
                               "intermediate_size", "head_dim", "max_position_embeddings"})
    for (std::int64_t value :
         {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 31, std::numeric_limits<std::int64_t>::max()})
      CHECK(made::contains(hf("llama", key, value), key));
  for (std::string_view key : {"n_routed_experts", "num_experts_per_tok", "moe_intermediate_size", "n_group", "topk_group",
                               "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "moe_layer_freq"})
    for (std::int64_t value : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 31})
      CHECK(made::contains(hf("deepseek_v3", key, value), key));
  CHECK(made::contains(hf("qwen3_moe", "decoder_sparse_step", 0), "decoder_sparse_step"));
  CHECK(made::contains(hf("gemma3", "sliding_window", 0), "sliding_window"));
  CHECK(made::contains(hf("gemma3", "query_pre_attn_scalar", 0), "query_pre_attn_scalar"));

  for (std::string_view key :
       {"block_count", "embedding_length", "context_length", "feed_forward_length", "attention.head_count",
        "attention.kv_lora_rank", "attention.key_length_mla", "attention.value_length_mla", "rope.dimension_count",
        "expert_used_count", "expert_feed_forward_length", "expert_group_count", "expert_group_used_count", "vocab_size"})
    for (std::uint32_t value : {0u, 0x80000000u, 0xFFFFFFFFu}) {
      const std::string full = "deepseek2." + std::string(key);
      CHECK(made::contains(gguf(made::deepseek2().u32(full, value)), full));
    }
  CHECK(made::contains(gguf(made::llama().u32("llama.attention.head_count_kv", 0)), "llama.attention.head_count_kv"));
}

TEST_CASE("G10 numbers that do not fit each other are format by key") {
  CHECK(made::contains(hf("llama", "num_key_value_heads", 3), "num_key_value_heads"));
  CHECK(made::contains(hf("deepseek_v3", "num_experts_per_tok", 9), "num_experts_per_tok"));
  CHECK(made::contains(hf("deepseek_v3", "n_group", 3), "n_group"));
  CHECK(made::contains(hf("deepseek_v3", "topk_group", 5), "topk_group"));
  CHECK(made::contains(hf("deepseek_v3", "topk_group", 1), "topk_group"));  // two experts are left, three are wanted
  CHECK(made::contains(hf("deepseek_v3", "n_group", 8), "n_group"));        // no second best in a group of one
  CHECK(made::contains(hf("deepseek_v3", "qk_rope_head_dim", 7), "qk_rope_head_dim"));
  CHECK(made::contains(hf("llama", "head_dim", 15), "head_dim"));
  CHECK(made::contains(hf("gemma3", "layer_types", io::Json(io::Json::Array{})), "layer_types"));
  CHECK(made::contains(hf("qwen3_moe", "mlp_only_layers", io::Json(io::Json::Array{io::Json(3)})), "mlp_only_layers"));
  io::Json json = config_of("llama");
  made::remove(json, "head_dim");
  made::set(json, "num_attention_heads", 6);
  CHECK(made::contains(made::failure([&] { config_from_hf(json); }, Code::format), "num_attention_heads"));
  CHECK(made::contains(gguf(made::llama().u32("llama.attention.head_count_kv", 3)), "llama.attention.head_count_kv"));
  CHECK(made::contains(gguf(made::deepseek2().u32("deepseek2.expert_group_count", 3)), "deepseek2.expert_group_count"));
  CHECK(made::contains(gguf(made::deepseek2().u32("deepseek2.expert_used_count", 9)), "deepseek2.expert_used_count"));
  CHECK(
      made::contains(gguf(made::deepseek2().u32("deepseek2.attention.key_length_mla", 8)), "deepseek2.attention.key_length_mla"));
  CHECK(made::contains(gguf(made::deepseek2().u32("deepseek2.nextn_predict_layers", 3)), "deepseek2.nextn_predict_layers"));
}

TEST_CASE("G11 NaN, infinite, negative and zero numbers are format by key") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (double value : {nan, inf, -inf, -1.0, 0.0}) {
    CHECK(made::contains(hf("llama", "rms_norm_eps", value), "rms_norm_eps"));
    CHECK(made::contains(hf("llama", "rope_parameters.rope_theta", value), "rope_theta"));
    CHECK(made::contains(hf("deepseek_v3", "rope_parameters.factor", value), "factor"));
    CHECK(made::contains(hf("deepseek_v3", "rope_parameters.beta_fast", value), "beta_fast"));
    CHECK(made::contains(hf("deepseek_v3", "rope_parameters.original_max_position_embeddings", value),
                         "original_max_position_embeddings"));
    CHECK(made::contains(hf("deepseek_v3", "routed_scaling_factor", value), "routed_scaling_factor"));
    CHECK(made::contains(hf("llama3_rope", "rope_parameters.low_freq_factor", value), "low_freq_factor"));
  }
  CHECK(made::contains(hf("llama3_rope", "rope_parameters.high_freq_factor", 1.0), "high_freq_factor"));  // equal: 0 / 0
  CHECK(made::contains(hf("llama", "rope_parameters.rope_theta", 1.0), "rope_theta"));                    // ln 1 = 0
  constexpr float fnan = std::numeric_limits<float>::quiet_NaN(), finf = std::numeric_limits<float>::infinity();
  for (float value : {fnan, finf, -finf, -1.0f}) {
    for (std::string_view key : {"attention.layer_norm_rms_epsilon", "rope.freq_base", "rope.scaling.factor",
                                 "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_log_multiplier", "expert_weights_scale"}) {
      const std::string full = "deepseek2." + std::string(key);
      CHECK(made::contains(gguf(made::deepseek2().f32(full, value)), full));
    }
  }
}

TEST_CASE("variants that would give wrong numbers are unsupported") {
  CHECK(made::contains(hf("llama", "rope_parameters.rope_type", "longrope", Code::unsupported), "longrope"));
  CHECK(made::contains(hf("llama", "rope_parameters.rope_type", "dynamic", Code::unsupported), "dynamic"));
  CHECK(made::contains(hf("llama", "hidden_act", "gelu", Code::unsupported), "hidden_act"));
  CHECK(made::contains(hf("deepseek_v3", "scoring_func", "sqrtsoftplus", Code::unsupported), "scoring_func"));
  CHECK(made::contains(hf("deepseek_v3", "topk_method", "other", Code::unsupported), "topk_method"));
  CHECK(made::contains(hf("deepseek_v3_fp8", "quantization_config.quant_method", "gptq", Code::unsupported), "quant_method"));
  CHECK(made::contains(hf("deepseek_v3_fp8", "quantization_config.weight_block_size",
                          io::Json(io::Json::Array{io::Json(64), io::Json(128)}), Code::unsupported),
                       "weight_block_size"));
  CHECK(made::contains(hf("gemma3", "use_bidirectional_attention", true, Code::unsupported), "use_bidirectional_attention"));
  CHECK(made::contains(gguf(made::deepseek2().u32("deepseek2.expert_gating_func", 4), Code::unsupported), "expert_gating_func"));
  CHECK(made::contains(gguf(made::deepseek2().string("deepseek2.rope.scaling.type", "longrope"), Code::unsupported), "longrope"));
  CHECK(made::contains(gguf(made::llama().u32("llama.expert_count", 8), Code::unsupported), "expert_count"));
  CHECK(made::contains(
      gguf(made::llama().u32("llama.attention.key_length", 16).u32("llama.attention.value_length", 8), Code::unsupported),
      "value_length"));
}

TEST_CASE("expert_feed_forward_length may be an array of one width") {
  const auto width = [](std::vector<std::uint32_t> v) {
    return config_from_gguf(made::deepseek2().u32s("deepseek2.expert_feed_forward_length", v).open().metadata)
        .moe_intermediate_size;
  };
  CHECK(width({0, 32, 32}) == 32);
  CHECK(made::contains(gguf(made::deepseek2().u32s("deepseek2.expert_feed_forward_length", {32, 32, 64}), Code::unsupported),
                       "expert_feed_forward_length"));
  CHECK(made::contains(gguf(made::deepseek2().u32s("deepseek2.expert_feed_forward_length", {})), "expert_feed_forward_length"));
}
