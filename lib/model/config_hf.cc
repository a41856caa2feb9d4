// config.json. Keys that transformers leaves out when they have their default take that default here; keys that say the size of a
// tensor and have no sensible default are required. transformers 5 writes rope_parameters where version 4 wrote rope_scaling
// beside rope_theta; both are read.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dsv31/error.h"
#include "lib/io/bytes.h"
#include "lib/model/architectures.h"
#include "lib/model/config.h"

namespace dsv31::inline v1::model {
namespace {

using io::Json;
constexpr std::string_view kWhere = "config.json";
constexpr double kMaxScale = 1e6;

[[noreturn]] void unsupported(std::string_view key, std::string_view got, std::string_view expected) {
  throw Error(Code::unsupported, kWhere, fmt::format("{}: got {}, expected {}", key, io::quoted(got), expected));
}

bool present(const Json& json, std::string_view key) {
  const Json* v = json.find(key);
  return v != nullptr && !v->is_null();
}

// The object whose members are rope_type or type, factor and so on; theta stands inside it or beside it.
RopeParameters rope_parameters(const Json& rope, const Json& config, double theta) {
  RopeParameters r;
  r.rope_theta = rope.float_or("rope_theta", theta, 1.0 + 1e-9, 1e15);
  const std::string type = rope.string_or("rope_type", rope.string_or("type", "default"));
  if (type == "default") return r;
  if (type == "linear")
    r.rope_type = RopeType::linear;
  else if (type == "llama3")
    r.rope_type = RopeType::llama3;
  else if (type == "yarn")
    r.rope_type = RopeType::yarn;
  else
    unsupported("rope_type", type, "default, linear, llama3 or yarn");

  const double context = static_cast<double>(config.int_or("max_position_embeddings", 2048, 1, kMaxContext));
  const double original = config.float_or("original_max_position_embeddings", context, 1, kMaxContext);
  if (r.rope_type != RopeType::linear)
    r.original_max_position_embeddings = rope.float_or("original_max_position_embeddings", original, 1, kMaxContext);
  if (r.rope_type == RopeType::yarn && !present(rope, "factor"))
    r.factor = std::max(1.0, context / r.original_max_position_embeddings);
  else
    r.factor = rope.get_float("factor", 1, kMaxScale);
  if (r.rope_type == RopeType::llama3) {
    r.low_freq_factor = rope.get_float("low_freq_factor", 1e-3, kMaxScale);
    r.high_freq_factor = rope.get_float("high_freq_factor", 1e-3, kMaxScale);
    if (r.high_freq_factor <= r.low_freq_factor)
      throw Error(Code::format, kWhere,
                  fmt::format("\"high_freq_factor\": got {}, expected more than low_freq_factor {}", r.high_freq_factor,
                              r.low_freq_factor));
  }
  if (r.rope_type == RopeType::yarn) {
    r.beta_fast = rope.float_or("beta_fast", 32, 1e-3, kMaxScale);
    r.beta_slow = rope.float_or("beta_slow", 1, 1e-3, kMaxScale);
    r.truncate = rope.bool_or("truncate", true);
    r.mscale = rope.float_or("mscale", 0, 0, 1e3);
    r.mscale_all_dim = rope.float_or("mscale_all_dim", 0, 0, 1e3);
    r.attention_factor = rope.float_or("attention_factor", 0, 0, 1e3);
  }
  return r;
}

// The rope of one kind of layer: rope_parameters may hold an object for each kind, for gemma3.
RopeParameters rope_of(const Json& config, std::string_view layer_type, double theta) {
  const Json empty{Json::Object{}};
  const Json* rope = config.find("rope_parameters");
  if (rope == nullptr || rope->is_null()) rope = config.find("rope_scaling");
  if (rope == nullptr || rope->is_null()) return rope_parameters(empty, config, theta);
  if (!rope->is_object()) config.get_object(config.has("rope_parameters") ? "rope_parameters" : "rope_scaling");
  if (present(*rope, layer_type)) return rope_parameters(rope->get_object(layer_type), config, theta);
  return rope_parameters(*rope, config, theta);
}

Activation activation(const Json& config, std::string_view key, std::string_view absent) {
  const std::string name = config.string_or(key, absent);
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_tanh") return Activation::gelu_tanh;
  unsupported(key, name, "silu or gelu_pytorch_tanh");
}

void check_quantization(const Json& top) {
  const Json* q = top.find("quantization_config");
  if (q == nullptr || q->is_null()) return;
  if (!q->is_object()) top.get_object("quantization_config");
  const std::string method = q->string_or("quant_method", "");
  if (method != "fp8") unsupported("quantization_config.quant_method", method, "fp8");
  if (!present(*q, "weight_block_size"))
    throw Error(Code::unsupported, kWhere, "quantization_config.weight_block_size: got none, expected [128, 128]");
  for (const Json& side : q->get_array("weight_block_size"))
    if (!side.is_int() || side.as_int() != 128)
      throw Error(Code::unsupported, kWhere, "quantization_config.weight_block_size: got another size, expected [128, 128]");
}

// layer_types, or the rule that stood for it before it was written out.
std::vector<bool> sliding_layers(const Json& config, std::int64_t layers, bool (*rule)(std::int64_t, std::int64_t),
                                 std::int64_t n) {
  std::vector<bool> sliding(static_cast<std::size_t>(layers));
  const bool listed = present(config, "layer_types");
  if (listed) {
    const Json::Array& types = config.get_array("layer_types");
    require(static_cast<std::int64_t>(types.size()) == layers, kWhere, "layer_types", static_cast<std::int64_t>(types.size()),
            "num_hidden_layers entries");
    for (std::size_t i = 0; i < types.size(); ++i) {
      const std::string_view type = types[i].is_string() ? std::string_view(types[i].as_string()) : "";
      if (type != "sliding_attention" && type != "full_attention")
        unsupported("layer_types", type, "full_attention or sliding_attention");
      sliding[i] = type == "sliding_attention";
    }
    return sliding;
  }
  for (std::int64_t i = 0; i < layers; ++i) sliding[static_cast<std::size_t>(i)] = rule(i, n);
  return sliding;
}

void read_heads(const Json& config, Config& c, std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim) {
  c.num_attention_heads =
      heads > 0 ? config.int_or("num_attention_heads", heads, 1, kMaxHeads) : config.get_int("num_attention_heads", 1, kMaxHeads);
  c.num_key_value_heads = config.int_or("num_key_value_heads", kv_heads > 0 ? kv_heads : c.num_attention_heads, 1, kMaxHeads);
  require(c.num_attention_heads % c.num_key_value_heads == 0, kWhere, "num_key_value_heads", c.num_key_value_heads,
          "a divisor of num_attention_heads");
  if (present(config, "head_dim"))
    c.head_dim = config.get_int("head_dim", 1, kMaxHeadDim);
  else if (head_dim > 0)
    c.head_dim = head_dim;
  else {
    require(c.hidden_size % c.num_attention_heads == 0, kWhere, "num_attention_heads", c.num_attention_heads,
            "a divisor of hidden_size where there is no head_dim");
    c.head_dim = c.hidden_size / c.num_attention_heads;
  }
  const double turning = config.float_or("partial_rotary_factor", 1, 0, 1);
  c.rope_dim = static_cast<std::int64_t>(std::floor(static_cast<double>(c.head_dim) * turning));
  require(c.rope_dim > 0 && c.rope_dim % 2 == 0, kWhere, "head_dim", c.head_dim, "an even number of turning dimensions");
}

void read_llama(const Json& config, Config& c) {
  read_heads(config, c, 0, 0, 0);
  c.attention_bias = config.bool_or("attention_bias", false);
  c.mlp_bias = config.bool_or("mlp_bias", false);
}

void read_qwen(const Json& config, Config& c, std::int64_t head_dim) {
  read_heads(config, c, 0, 0, head_dim);
  c.attention_bias = c.model_type == "qwen2" || config.bool_or("attention_bias", false);
  if (config.bool_or("use_sliding_window", false)) {
    c.sliding_window = config.int_or("sliding_window", 4096, 1, kMaxContext);
    c.sliding = sliding_layers(
        config, c.num_hidden_layers, [](std::int64_t i, std::int64_t n) { return i >= n; },
        config.int_or("max_window_layers", 28, 0, kMaxLayers));
  }
}

// n_routed_experts of DeepSeek, num_experts or num_local_experts of Qwen.
void read_experts(const Json& config, Config& c, std::string_view key, std::int64_t experts, std::int64_t per_token) {
  c.n_routed_experts = experts > 0 ? config.int_or(key, experts, 1, kMaxExperts) : config.get_int(key, 1, kMaxExperts);
  c.num_experts_per_tok = per_token > 0 && !present(config, "num_experts_per_tok")
                              ? std::min(per_token, c.n_routed_experts)
                              : config.get_int("num_experts_per_tok", 1, c.n_routed_experts);
  c.moe_intermediate_size = config.get_int("moe_intermediate_size", 1, kMaxHidden);
}

void read_qwen3_moe(const Json& config, Config& c) {
  read_qwen(config, c, 0);
  read_experts(config, c, present(config, "num_experts") ? "num_experts" : "num_local_experts", 128, 8);
  c.norm_topk_prob = config.bool_or("norm_topk_prob", false);
  const std::int64_t step = config.int_or("decoder_sparse_step", 1, 1, kMaxLayers);
  c.sparse.resize(static_cast<std::size_t>(c.num_hidden_layers));
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) c.sparse[static_cast<std::size_t>(i)] = (i + 1) % step == 0;
  if (!present(config, "mlp_only_layers")) return;
  for (const Json& layer : config.get_array("mlp_only_layers")) {
    const std::int64_t i = layer.is_int() ? layer.as_int() : -1;
    require(i >= 0 && i < c.num_hidden_layers, kWhere, "mlp_only_layers", i, "indices of layers");
    c.sparse[static_cast<std::size_t>(i)] = false;
  }
}

void read_gemma3(const Json& config, Config& c) {
  read_heads(config, c, 8, 4, 256);
  c.attention_bias = config.bool_or("attention_bias", false);
  if (config.bool_or("use_bidirectional_attention", false))
    throw Error(Code::unsupported, kWhere, "use_bidirectional_attention: got true, expected false");
  c.query_pre_attn_scalar = config.float_or("query_pre_attn_scalar", 256, 1e-3, 1e9);
  c.attn_logit_softcapping = config.float_or("attn_logit_softcapping", 0, 0, 1e6);
  c.final_logit_softcapping = config.float_or("final_logit_softcapping", 0, 0, 1e6);
  c.sliding_window = config.int_or("sliding_window", 4096, 1, kMaxContext);
  const std::int64_t pattern =
      config.int_or("sliding_window_pattern", config.int_or("_sliding_window_pattern", 6, 1, kMaxLayers), 1, kMaxLayers);
  c.sliding =
      sliding_layers(config, c.num_hidden_layers, [](std::int64_t i, std::int64_t n) { return (i + 1) % n != 0; }, pattern);
  c.rope = rope_of(config, "full_attention", config.float_or("rope_theta", 1'000'000, 1.0 + 1e-9, 1e15));
  // Sliding layers are never stretched: their window is shorter than the original context.
  const double local = config.float_or("rope_local_base_freq", 10'000, 1.0 + 1e-9, 1e15);
  const Json* rope = config.find("rope_parameters");
  c.rope_local = rope != nullptr && present(*rope, "sliding_attention") ? rope_of(config, "sliding_attention", local)
                                                                        : RopeParameters{.rope_theta = local};
}

void read_groups(const Json& config, Config& c, bool v3) {
  c.n_group = config.int_or("n_group", v3 ? 8 : 1, 1, c.n_routed_experts);
  require(c.n_routed_experts % c.n_group == 0, kWhere, "n_group", c.n_group, "a divisor of n_routed_experts");
  c.topk_group = config.int_or("topk_group", v3 ? std::min<std::int64_t>(4, c.n_group) : 1, 1, c.n_group);
  const std::string method = config.string_or("topk_method", v3 ? "noaux_tc" : "greedy");
  if (method == "greedy")
    c.group_score = GroupScore::none, c.n_group = c.topk_group = 1;
  else if (method == "group_limited_greedy")
    c.group_score = GroupScore::max;
  else if (method == "noaux_tc")
    c.group_score = GroupScore::top2_sum, c.selection_bias = true;
  else
    unsupported("topk_method", method, "greedy, group_limited_greedy or noaux_tc");
  if (c.n_group == 1) c.group_score = GroupScore::none;
  const std::int64_t group = c.n_routed_experts / c.n_group;
  require(c.group_score != GroupScore::top2_sum || group >= 2, kWhere, "n_group", c.n_group, "groups of at least two experts");
  require(c.num_experts_per_tok <= group * c.topk_group, kWhere, "topk_group", c.topk_group,
          "groups that hold num_experts_per_tok experts");
}

void read_deepseek(const Json& config, Config& c) {
  const bool v3 = c.model_type != "deepseek_v2";
  c.num_attention_heads = config.get_int("num_attention_heads", 1, kMaxHeads);
  c.num_key_value_heads = c.num_attention_heads;  // latent attention has no key-value heads
  c.attention_bias = config.bool_or("attention_bias", false);
  const Json* q_lora_rank = config.find("q_lora_rank");  // null: queries are projected directly; absent: the default
  if (q_lora_rank == nullptr)
    c.q_lora_rank = 1536;
  else if (!q_lora_rank->is_null())
    c.q_lora_rank = config.get_int("q_lora_rank", 0, kMaxHidden);
  c.kv_lora_rank = config.int_or("kv_lora_rank", 512, 1, kMaxHidden);
  c.qk_nope_head_dim = config.int_or("qk_nope_head_dim", 128, 1, kMaxHeadDim);
  c.qk_rope_head_dim = config.int_or("qk_rope_head_dim", 64, 2, kMaxHeadDim);
  require(c.qk_rope_head_dim % 2 == 0, kWhere, "qk_rope_head_dim", c.qk_rope_head_dim, "an even number");
  c.v_head_dim = config.int_or("v_head_dim", 128, 1, kMaxHeadDim);
  c.head_dim = c.qk_nope_head_dim + c.qk_rope_head_dim;
  c.rope_dim = c.qk_rope_head_dim;
  c.rope_interleave = config.bool_or("rope_interleave", true);
  if (c.model_type == "deepseek_v32") {
    c.index_n_heads = config.int_or("index_n_heads", 64, 1, kMaxHeads);
    c.index_head_dim = config.int_or("index_head_dim", 128, 1, kMaxHeadDim);
    c.index_topk = config.int_or("index_topk", 2048, 1, kMaxTopk);
    require(c.q_lora_rank > 0, kWhere, "q_lora_rank", c.q_lora_rank, "more than 0, for the indexer's queries come of it");
    require(c.qk_rope_head_dim <= c.index_head_dim, kWhere, "index_head_dim", c.index_head_dim, "at least qk_rope_head_dim");
  }
  c.num_nextn_predict_layers = config.int_or("num_nextn_predict_layers", 0, 0, kMaxLayers);

  c.sparse.assign(static_cast<std::size_t>(c.num_hidden_layers), false);
  const Json* experts = config.find("n_routed_experts");
  if (experts != nullptr && experts->is_null()) return;
  read_experts(config, c, "n_routed_experts", v3 ? 256 : 64, v3 ? 8 : 0);
  c.n_shared_experts = config.int_or("n_shared_experts", v3 ? 1 : 2, 0, kMaxExperts);
  const std::string scoring = config.string_or("scoring_func", v3 ? "sigmoid" : "softmax");
  if (scoring != "softmax" && scoring != "sigmoid") unsupported("scoring_func", scoring, "softmax or sigmoid");
  c.scoring_func = scoring == "sigmoid" ? Scoring::sigmoid : Scoring::softmax;
  read_groups(config, c, v3);
  // The reference for V2 scales and never normalises, whatever norm_topk_prob says; all released V2 say false.
  c.norm_topk_prob = v3 && config.bool_or("norm_topk_prob", true);
  c.routed_scaling_factor = config.float_or("routed_scaling_factor", v3 ? 2.5 : 1.0, 1e-6, kMaxScale);
  const std::int64_t first = config.int_or("first_k_dense_replace", v3 ? 3 : 0, 0, kMaxLayers);
  const std::int64_t every = config.int_or("moe_layer_freq", 1, 1, kMaxLayers);
  for (std::int64_t i = first; i < c.num_hidden_layers; ++i) c.sparse[static_cast<std::size_t>(i)] = i % every == 0;
}

}  // namespace

Config config_from_hf(const Json& top) {
  if (!top.is_object()) throw Error(Code::format, kWhere, "got none, expected an object");
  const Architecture& architecture = architecture_by_hf(top);
  const bool nested = present(top, "text_config");
  const Json& config = nested ? top.get_object("text_config") : top;
  const bool gemma = architecture.gguf == "gemma3";

  Config c;
  c.model_type = std::string(architecture.model_type);
  const auto size = [&](std::string_view key, std::int64_t gemma_default, std::int64_t max) {
    return gemma ? config.int_or(key, gemma_default, 1, max) : config.get_int(key, 1, max);
  };
  c.vocab_size = size("vocab_size", 262'208, kMaxVocab);
  c.hidden_size = size("hidden_size", 2304, kMaxHidden);
  c.num_hidden_layers = size("num_hidden_layers", 26, kMaxLayers);
  c.intermediate_size = size("intermediate_size", 9216, kMaxHidden);
  c.max_position_embeddings = config.int_or("max_position_embeddings", gemma ? 131'072 : 2048, 1, kMaxContext);
  c.rms_norm_eps = config.float_or("rms_norm_eps", 1e-6, 1e-30, 0.1);
  c.hidden_act = gemma ? activation(config, "hidden_activation", "gelu_pytorch_tanh") : activation(config, "hidden_act", "silu");
  c.tie_word_embeddings = config.bool_or("tie_word_embeddings", top.bool_or("tie_word_embeddings", gemma));
  check_quantization(top);
  if (!gemma) c.rope = rope_of(config, "full_attention", config.float_or("rope_theta", 10'000, 1.0 + 1e-9, 1e15));

  if (c.model_type == "llama") read_llama(config, c);
  if (c.model_type == "qwen2") read_qwen(config, c, 0);
  if (c.model_type == "qwen3") read_qwen(config, c, 128);
  if (c.model_type == "qwen3_moe") read_qwen3_moe(config, c);
  if (gemma) read_gemma3(config, c);
  if (architecture.build == build_deepseek) read_deepseek(config, c);
  return c;
}

}  // namespace dsv31::inline v1::model
