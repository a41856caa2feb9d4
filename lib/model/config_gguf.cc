// The key-values of a GGUF file under general.architecture. What its converters leave out is what they assume: the defaults here
// are those of the format's own reader.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dsv31/error.h"
#include "lib/io/bytes.h"
#include "lib/model/architectures.h"
#include "lib/model/config.h"

namespace dsv31::inline v1::model {
namespace {

constexpr std::string_view kWhere = "gguf";
constexpr double kMaxScale = 1e6;

// Keys of one architecture: "deepseek2." + name.
struct Keys {
  const io::Metadata& metadata;
  std::string prefix;

  std::string at(std::string_view name) const { return prefix + std::string(name); }
  bool has(std::string_view name) const { return metadata.has(at(name)); }
  std::int64_t integer(std::string_view name, std::int64_t min, std::int64_t max) const {
    return metadata.integer(at(name), min, max);
  }
  std::int64_t integer_or(std::string_view name, std::int64_t absent, std::int64_t min, std::int64_t max) const {
    return metadata.integer_or(at(name), absent, min, max);
  }
  double number(std::string_view name, double min, double max) const { return metadata.number(at(name), min, max); }
  double number_or(std::string_view name, double absent, double min, double max) const {
    return metadata.number_or(at(name), absent, min, max);
  }
  bool boolean_or(std::string_view name, bool absent) const { return metadata.boolean_or(at(name), absent); }
  std::string_view string_or(std::string_view name, std::string_view absent) const {
    return metadata.string_or(at(name), absent);
  }

  void rule(bool holds, std::string_view name, std::int64_t got, std::string_view expected) const {
    require(holds, kWhere, at(name), got, expected);
  }
  [[noreturn]] void unsupported(std::string_view name, const std::string& got, std::string_view expected) const {
    throw Error(Code::unsupported, kWhere, fmt::format("{}: got {}, expected {}", at(name), got, expected));
  }
  // A scalar, or an array with an entry a layer: all the same, or unsupported.
  std::int64_t same_everywhere(std::string_view name, std::int64_t min, std::int64_t max) const {
    if (!metadata.is_array(at(name))) return integer(name, min, max);
    std::int64_t one = 0;
    for (std::int64_t v : metadata.integers(at(name), 0, max)) {
      if (v == 0) continue;  // a layer that has none
      if (one != 0 && v != one) unsupported(name, "different widths", "one width");
      one = v;
    }
    rule(one >= min, name, one, "at least one width");
    return one;
  }
};

RopeParameters read_rope(const Keys& keys) {
  RopeParameters r;
  r.rope_theta = keys.number_or("rope.freq_base", 10'000, 1.0 + 1e-9, 1e15);
  const double factor = keys.number_or("rope.scaling.factor", keys.number_or("rope.scale_linear", 0, 0, kMaxScale), 0, kMaxScale);
  const std::string_view type = keys.string_or("rope.scaling.type", factor > 0 ? "linear" : "none");
  if (type == "none" || (type == "linear" && factor == 0)) return r;
  if (type == "linear")
    r.rope_type = RopeType::linear;
  else if (type == "yarn")
    r.rope_type = RopeType::yarn;
  else
    keys.unsupported("rope.scaling.type", io::quoted(type), "none, linear or yarn");
  r.factor = factor == 0 ? 1 : factor;
  if (factor != 0 && factor < 1) keys.number("rope.scaling.factor", 1, kMaxScale);
  if (r.rope_type == RopeType::linear) return r;

  const double context = static_cast<double>(keys.integer("context_length", 1, kMaxContext));
  r.original_max_position_embeddings = keys.number_or("rope.scaling.original_context_length", context, 1, kMaxContext);
  r.beta_fast = keys.number_or("rope.scaling.yarn_beta_fast", 32, 1e-3, kMaxScale);
  r.beta_slow = keys.number_or("rope.scaling.yarn_beta_slow", 1, 1e-3, kMaxScale);
  const double ext = keys.number_or("rope.scaling.yarn_ext_factor", 1, -1, 1);
  if (ext != 1 && ext != -1) keys.unsupported("rope.scaling.yarn_ext_factor", fmt::format("{}", ext), "1");
  // The format multiplies the factor below by this one; released files have 1 here.
  const double attn = keys.number_or("rope.scaling.yarn_attn_factor", 1, 1e-3, 1e3);
  r.attention_factor = attn == 1 ? 0 : attn * (0.1 * std::log(r.factor) + 1);
  return r;
}

void read_heads(const Keys& keys, Config& c) {
  c.num_attention_heads = keys.integer("attention.head_count", 1, kMaxHeads);
  c.num_key_value_heads = keys.integer_or("attention.head_count_kv", c.num_attention_heads, 1, kMaxHeads);
  keys.rule(c.num_attention_heads % c.num_key_value_heads == 0, "attention.head_count_kv", c.num_key_value_heads,
            "a divisor of attention.head_count");
  if (keys.has("attention.key_length"))
    c.head_dim = keys.integer("attention.key_length", 1, kMaxHeadDim);
  else {
    keys.rule(c.hidden_size % c.num_attention_heads == 0, "attention.head_count", c.num_attention_heads,
              "a divisor of embedding_length where there is no attention.key_length");
    c.head_dim = c.hidden_size / c.num_attention_heads;
  }
  const std::int64_t value_length = keys.integer_or("attention.value_length", c.head_dim, 1, kMaxHeadDim);
  if (value_length != c.head_dim)
    keys.unsupported("attention.value_length", fmt::format("{}", value_length), "attention.key_length");
  c.rope_dim = keys.integer_or("rope.dimension_count", c.head_dim, 1, c.head_dim);
  keys.rule(c.rope_dim % 2 == 0, "rope.dimension_count", c.rope_dim, "an even number");
  c.rope = read_rope(keys);
}

void read_experts(const Keys& keys, Config& c) {
  c.n_routed_experts = keys.integer("expert_count", 1, kMaxExperts);
  c.num_experts_per_tok = keys.integer("expert_used_count", 1, c.n_routed_experts);
}

void read_qwen3moe(const Keys& keys, Config& c) {
  read_experts(keys, c);
  c.moe_intermediate_size = keys.has("expert_feed_forward_length")
                                ? keys.same_everywhere("expert_feed_forward_length", 1, kMaxHidden)
                                : std::max<std::int64_t>(1, c.intermediate_size / c.num_experts_per_tok);
  c.norm_topk_prob = keys.boolean_or("expert_weights_norm", true);
  c.sparse.assign(static_cast<std::size_t>(c.num_hidden_layers), true);
}

void read_gemma3(const Keys& keys, Config& c) {
  c.hidden_act = Activation::gelu_tanh;
  c.sliding_window = keys.integer_or("attention.sliding_window", 0, 0, kMaxContext);
  c.sliding.assign(static_cast<std::size_t>(c.num_hidden_layers), false);
  if (c.sliding_window > 0) {
    const std::string pattern = keys.at("attention.sliding_window_pattern");
    if (keys.metadata.is_array(pattern)) {
      const std::vector<bool> listed = keys.metadata.booleans(pattern);
      keys.rule(listed.size() == c.sliding.size(), "attention.sliding_window_pattern", static_cast<std::int64_t>(listed.size()),
                "block_count entries");
      c.sliding = listed;
    } else {
      const std::int64_t every = keys.integer_or("attention.sliding_window_pattern", 6, 1, kMaxLayers);
      for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) c.sliding[static_cast<std::size_t>(i)] = (i + 1) % every != 0;
    }
  }
  if (!keys.has("rope.freq_base")) c.rope.rope_theta = 1'000'000;
  c.rope_local.rope_theta = keys.number_or("rope.freq_base_swa", 10'000, 1.0 + 1e-9, 1e15);
  // Only the 27B model scales its queries otherwise, and the format has no key for it: it is known by its 62 layers.
  c.query_pre_attn_scalar = c.num_hidden_layers == 62
                                ? static_cast<double>(c.hidden_size) / static_cast<double>(c.num_attention_heads)
                                : static_cast<double>(c.head_dim);
  c.attn_logit_softcapping = keys.number_or("attn_logit_softcapping", 0, 0, 1e6);
  c.final_logit_softcapping = keys.number_or("final_logit_softcapping", 0, 0, 1e6);
}

// key_length_mla and value_length_mla are there when attn_kv_b is split in two; older files give the heads' lengths in key_length
// and value_length. head_count_kv is 1 in the former because the cache holds one latent: it says nothing about the weights.
void read_latent_attention(const Keys& keys, Config& c) {
  c.num_attention_heads = c.num_key_value_heads = keys.integer("attention.head_count", 1, kMaxHeads);
  const bool split = keys.has("attention.key_length_mla");
  const std::string_view key = split ? "attention.key_length_mla" : "attention.key_length";
  c.qk_rope_head_dim = c.rope_dim = keys.integer("rope.dimension_count", 2, kMaxHeadDim);
  keys.rule(c.rope_dim % 2 == 0, "rope.dimension_count", c.rope_dim, "an even number");
  c.head_dim = keys.integer(key, 1, kMaxHeadDim);
  keys.rule(c.head_dim > c.rope_dim, key, c.head_dim, "more than rope.dimension_count");
  c.qk_nope_head_dim = c.head_dim - c.rope_dim;
  c.v_head_dim = keys.integer(split ? "attention.value_length_mla" : "attention.value_length", 1, kMaxHeadDim);
  c.q_lora_rank = keys.integer_or("attention.q_lora_rank", 0, 0, kMaxHidden);
  c.kv_lora_rank = keys.integer("attention.kv_lora_rank", 1, kMaxHidden);
  if (c.model_type != "deepseek32") return;
  c.index_n_heads = keys.integer("attention.indexer.head_count", 1, kMaxHeads);
  c.index_head_dim = keys.integer("attention.indexer.key_length", 1, kMaxHeadDim);
  c.index_topk = keys.integer("attention.indexer.top_k", 1, kMaxTopk);
  keys.rule(c.q_lora_rank > 0, "attention.q_lora_rank", c.q_lora_rank, "more than 0, for the indexer's queries come of it");
  keys.rule(c.rope_dim <= c.index_head_dim, "attention.indexer.key_length", c.index_head_dim, "at least rope.dimension_count");
}

void read_deepseek2(const Keys& keys, Config& c) {
  read_latent_attention(keys, c);
  c.rope = read_rope(keys);
  if (c.rope.rope_type == RopeType::yarn) {
    // yarn_log_multiplier is 0.1 * mscale_all_dim; cos and sin are not scaled.
    if (keys.has("rope.scaling.yarn_log_multiplier")) {
      c.rope.mscale_all_dim = static_cast<float>(keys.number("rope.scaling.yarn_log_multiplier", 0, 100) * 10);
    } else {
      c.rope.mscale_all_dim = c.num_hidden_layers == 27 ? 0.707 : 1;
      c.warnings.push_back(fmt::format("{} is missing; the scale of attention takes mscale_all_dim = {} from the model's shape",
                                       keys.at("rope.scaling.yarn_log_multiplier"), c.rope.mscale_all_dim));
    }
    c.rope.mscale = c.rope.mscale_all_dim;
    c.rope.attention_factor = 1;
  }

  c.sparse.assign(static_cast<std::size_t>(c.num_hidden_layers), false);
  if (keys.integer_or("expert_count", 0, 0, kMaxExperts) == 0) return;
  read_experts(keys, c);
  c.moe_intermediate_size = keys.same_everywhere("expert_feed_forward_length", 1, kMaxHidden);
  c.n_shared_experts = keys.integer_or("expert_shared_count", 0, 0, kMaxExperts);
  c.norm_topk_prob = keys.boolean_or("expert_weights_norm", false);
  c.routed_scaling_factor = keys.number_or("expert_weights_scale", 1, 1e-6, kMaxScale);
  const std::int64_t gating = keys.integer_or("expert_gating_func", 1, 0, 1 << 16);
  if (gating > 2) keys.unsupported("expert_gating_func", fmt::format("{}", gating), "1 (softmax) or 2 (sigmoid)");
  c.scoring_func = gating == 2 ? Scoring::sigmoid : Scoring::softmax;
  c.n_group = keys.integer_or("expert_group_count", 1, 1, c.n_routed_experts);
  keys.rule(c.n_routed_experts % c.n_group == 0, "expert_group_count", c.n_group, "a divisor of expert_count");
  c.topk_group = keys.integer_or("expert_group_used_count", c.n_group, 1, c.n_group);
  // V2 scores a group by its best expert, V3 by its best two; the format tells them apart only by the gate.
  if (c.n_group > 1) c.group_score = c.scoring_func == Scoring::sigmoid ? GroupScore::top2_sum : GroupScore::max;
  if (c.n_group == 1 && c.scoring_func == Scoring::sigmoid && c.n_routed_experts == 256)
    c.warnings.push_back(fmt::format("{} is missing; experts are chosen without groups", keys.at("expert_group_count")));
  const std::int64_t group = c.n_routed_experts / c.n_group;
  keys.rule(c.group_score != GroupScore::top2_sum || group >= 2, "expert_group_count", c.n_group,
            "groups of at least two experts");
  keys.rule(c.num_experts_per_tok <= group * c.topk_group, "expert_group_used_count", c.topk_group,
            "groups that hold expert_used_count experts");
  const std::int64_t first = keys.integer_or("leading_dense_block_count", 0, 0, kMaxLayers);
  for (std::int64_t i = first; i < c.num_hidden_layers; ++i) c.sparse[static_cast<std::size_t>(i)] = true;
}

}  // namespace

Config config_from_gguf(const io::Metadata& metadata) {
  const std::string_view name = metadata.string("general.architecture");
  const Architecture& architecture = architecture_by_gguf(name);
  const Keys keys{metadata, std::string(architecture.gguf) + "."};

  Config c;
  c.model_type = std::string(architecture.gguf);
  c.vocab_size = keys.integer_or("vocab_size", 0, 1, kMaxVocab);
  c.hidden_size = keys.integer("embedding_length", 1, kMaxHidden);
  c.max_position_embeddings = keys.integer("context_length", 1, kMaxContext);
  c.rms_norm_eps = keys.number("attention.layer_norm_rms_epsilon", 1e-30, 0.1);
  const std::int64_t blocks = keys.integer("block_count", 1, kMaxLayers);
  c.num_nextn_predict_layers = keys.integer_or("nextn_predict_layers", 0, 0, blocks - 1);
  c.num_hidden_layers = blocks - c.num_nextn_predict_layers;
  c.intermediate_size = keys.integer("feed_forward_length", 1, kMaxHidden);
  if (architecture.build == build_deepseek) {
    read_deepseek2(keys, c);
    return c;
  }
  read_heads(keys, c);
  if (name == "qwen3moe") {
    read_qwen3moe(keys, c);
  } else if (keys.integer_or("expert_count", 0, 0, kMaxExperts) != 0) {
    keys.unsupported("expert_count", "experts", "a dense model");
  }
  if (name == "gemma3") read_gemma3(keys, c);
  return c;
}

}  // namespace dsv31::inline v1::model
