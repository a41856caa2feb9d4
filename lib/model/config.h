// The hyperparameters of a model, in the names and shapes of config.json, whichever container they came from.
//
// They come from strangers. Every number is checked against a range when it is read, under the key that the file has it under
// (format), so that nothing after it divides by zero or multiplies past 63 bits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dsv31/op.h"
#include "lib/io/checkpoint.h"

namespace dsv31::inline v1::model {

enum class RopeType : std::uint8_t { plain, linear, llama3, yarn };

struct RopeParameters {
  RopeType rope_type = RopeType::plain;
  double rope_theta = 10000;
  double factor = 1;
  double original_max_position_embeddings = 0;       // llama3, yarn
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;              // yarn, in rotations over the original context
  bool truncate = true;                              // yarn: round the correction range to whole dimensions
  double mscale = 0, mscale_all_dim = 0;             // yarn of DeepSeek; 0: absent
  double attention_factor = 0;                       // of cos and sin; 0: derived
  bool operator==(const RopeParameters&) const = default;
};

struct Config {
  std::string model_type;  // the architecture as the file names it: HF model_type or GGUF general.architecture
  std::int64_t vocab_size = 0, hidden_size = 0, num_hidden_layers = 0, intermediate_size = 0, max_position_embeddings = 0;
  std::int64_t num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0;
  std::int64_t rope_dim = 0;  // values of a head that turn
  double rms_norm_eps = 1e-6;
  Activation hidden_act = Activation::silu;
  bool tie_word_embeddings = false, attention_bias = false, mlp_bias = false;
  RopeParameters rope;        // of all layers, or of full-attention layers
  RopeParameters rope_local;  // of sliding layers
  std::int64_t sliding_window = 0;
  std::vector<bool> sliding;         // (num_hidden_layers): layer_types[i] == "sliding_attention"
  double query_pre_attn_scalar = 0;  // gemma: the scale of attention is its inverse root
  double attn_logit_softcapping = 0, final_logit_softcapping = 0;

  // Mixture of experts
  std::int64_t n_routed_experts = 0, num_experts_per_tok = 0, n_shared_experts = 0, moe_intermediate_size = 0;
  std::int64_t n_group = 1, topk_group = 1;
  Scoring scoring_func = Scoring::softmax;
  GroupScore group_score = GroupScore::none;
  bool selection_bias = false;  // the gate has e_score_correction_bias
  bool norm_topk_prob = false;
  double routed_scaling_factor = 1;
  std::vector<bool> sparse;  // (num_hidden_layers): layer i routes to experts

  // Latent attention
  std::int64_t q_lora_rank = 0;  // 0: queries are projected directly
  std::int64_t kv_lora_rank = 0, qk_nope_head_dim = 0, qk_rope_head_dim = 0, v_head_dim = 0;
  bool rope_interleave = true;
  std::int64_t index_n_heads = 0, index_head_dim = 0, index_topk = 0;  // sparse attention; 0: dense
  std::int64_t num_nextn_predict_layers = 0;

  std::vector<std::string> warnings;

  std::int64_t q_width() const { return num_attention_heads * head_dim; }
  std::int64_t kv_width() const { return num_key_value_heads * head_dim; }
  // Keys that a query of the layer sees, itself included; 0: all.
  std::int64_t window(std::int64_t layer) const {
    return !sliding.empty() && sliding[static_cast<std::size_t>(layer)] ? sliding_window : 0;
  }
};

// Ranges of a model. The largest known are 671B: hidden 18,432, 128 heads, 256 experts, vocabulary 262,208.
inline constexpr std::int64_t kMaxLayers = 4096, kMaxHidden = 1 << 20, kMaxHeads = 1 << 14, kMaxHeadDim = 1 << 14,
                              kMaxVocab = 1 << 24, kMaxContext = 1 << 28, kMaxExperts = 1 << 14, kMaxTopk = 1 << 20;

// Throws format (key, got, expected) or unsupported (an architecture or a variant that is not built in). A vocab_size that a GGUF
// file leaves out is 0 here; build_model takes it from the embedding.
Config config_from_hf(const io::Json& config);
Config config_from_gguf(const io::Metadata& metadata);

// Rules between numbers, the same for both containers; key names what a reader would have to correct.
void require(bool rule, std::string_view where, std::string_view key, std::int64_t got, std::string_view expected);

}  // namespace dsv31::inline v1::model
