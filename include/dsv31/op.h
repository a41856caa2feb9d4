// The ops of a model, as plain data. For authors of backends; not a stable ABI.
//
// A model is a list of ops in execution order over values: float32 activations of shape (rows, width), where rows are the tokens
// of a step (all sequences of the step one after the other) or only those rows whose logits are wanted. In memory a row takes
// row_stride(width) floats and starts at a multiple of 64 bytes; the padding may hold anything finite or not and is never read as
// data.
//
// What an op means is written once, as plain loops, in backends/reference. Names are those of config.json; a shape is most
// significant first; n is the number of rows. Ids index the tables of Graph; kNone says that the optional thing is absent.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "dsv31/export.h"
#include "dsv31/tensor.h"

namespace dsv31::inline v1 {

using ValueId = std::int32_t;
using MatrixId = std::int32_t;
using VectorId = std::int32_t;
inline constexpr std::int32_t kNone = -1;

// Positions a block of the key-value cache holds, and keys that one partial softmax of attention covers.
inline constexpr std::int64_t kBlock = 64;
inline constexpr std::int64_t kChunk = 256;

constexpr std::int64_t row_stride(std::int64_t width) { return (width + 15) / 16 * 16; }

// y = weight * x / sqrt(mean(x^2) + eps), statistics in float32. weight (width); kNone: no norm, y = x.
struct Norm {
  VectorId weight = kNone;
  float eps = 0;
};

enum class Activation : std::uint8_t { silu, gelu_tanh };
enum class Pairing : std::uint8_t { interleaved, half_split };  // (x[2i], x[2i+1]) or (x[i], x[i + dim/2])

// out[r] = scale * weight[token[r]]
struct Embed {
  MatrixId weight = kNone;  // (vocab_size, hidden_size)
  float scale = 1;
  ValueId out = kNone;  // (n, hidden_size)
};

// angle[r][i] = float(position[r]) * inv_freq[i], rounded to float32; out[r] = [cos(angle) * scale | sin(angle) * scale]
struct Angles {
  std::vector<float> inv_freq;  // (dim / 2), long-context scaling already applied
  float scale = 1;
  ValueId out = kNone;  // (n, dim)
};

// out_p = residual + post_norm(W_p norm(x) + bias_p) for each part p. `out` may be `residual`; only one part then.
struct Linear {
  struct Part {
    MatrixId weight = kNone;  // (out_features, in_features)
    VectorId bias = kNone;    // (out_features)
    ValueId out = kNone;      // (n, out_features)
  };
  ValueId x = kNone;  // (n, in_features)
  Norm norm{};
  std::vector<Part> parts;
  Norm post_norm{};
  ValueId residual = kNone;  // (n, out_features)
};

// out = [norm_p(x_p)] of all parts, side by side.
struct Join {
  struct Part {
    ValueId x = kNone;  // (n, width)
    Norm norm{};        // weight (width)
  };
  std::vector<Part> parts;
  ValueId out = kNone;  // (n, sum of the widths); none of the parts
};

// Per head: q = rope(q_norm(q)), k = rope(k_norm(k)), in place for q; k and v go to the cache of `layer` at the row's position.
// Only the first rope_dim values of a head turn; angles holds rope_dim values a row.
struct RopeCache {
  std::int32_t layer = 0;
  std::int64_t num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0, rope_dim = 0;
  Pairing pairing = Pairing::half_split;
  Norm q_norm{}, k_norm{};  // weights (head_dim)
  ValueId angles = kNone;   // (n, rope_dim)
  ValueId q = kNone;        // (n, num_attention_heads * head_dim)
  ValueId k = kNone;        // (n, num_key_value_heads * head_dim)
  ValueId v = kNone;        // (n, num_key_value_heads * head_dim)
};

// out_h = softmax(cap(scale * q_h . K_g^T)) V_g over the visible keys of the row's own sequence, g = h / (heads per kv head).
// Visible: key position <= row position, > row position - window where window > 0, and in the sequence's window (visible_keys in
// dsv31/backend.h, for the ops below too). cap(s) = softcap * tanh(s / softcap) if softcap > 0.
struct Attention {
  std::int32_t layer = 0;
  std::int64_t num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0;
  float scale = 1;
  std::int64_t window = 0;
  float softcap = 0;
  ValueId q = kNone;    // (n, num_attention_heads * head_dim), as RopeCache left it
  ValueId out = kNone;  // (n, num_attention_heads * head_dim)
};

// Multi-head latent attention (DeepSeek-V2 paper, section 2.1; model-spec "MLA"), absorbed form.
// q per head = [nope | pe], the pe part turned; c = [latent | k_pe]: latent through kv_norm and k_pe turned go to the cache.
// qa_h = k_b_h q_nope_h; s = scale * (qa_h . latent_t + q_pe_h . k_pe_t); z_h = sum_t softmax(s)_t latent_t; out_h = v_b_h z_h.
// t runs over the visible positions, or over those that `selected` lists; chunks of kChunk then count entries of the list.
struct MlaAttention {
  std::int32_t layer = 0;
  std::int64_t num_attention_heads = 0, kv_lora_rank = 0, qk_nope_head_dim = 0, qk_rope_head_dim = 0, v_head_dim = 0;
  Pairing pairing = Pairing::interleaved;
  float scale = 1;
  Norm kv_norm{};            // weight (kv_lora_rank)
  MatrixId k_b = kNone;      // (num_attention_heads, kv_lora_rank, qk_nope_head_dim): W_UK of each head, transposed
  MatrixId v_b = kNone;      // (num_attention_heads, v_head_dim, kv_lora_rank): W_UV of each head
  ValueId angles = kNone;    // (n, qk_rope_head_dim)
  ValueId q = kNone;         // (n, num_attention_heads * (qk_nope_head_dim + qk_rope_head_dim)); may be overwritten
  ValueId c = kNone;         // (n, kv_lora_rank + qk_rope_head_dim); may be overwritten
  ValueId selected = kNone;  // (n, index_topk), as SparseIndex wrote it; kNone: dense
  ValueId out = kNone;       // (n, num_attention_heads * v_head_dim)
};

// Lightning indexer (DeepSeek-V3.2-Exp, section 2.1; model-spec "sparse attention"): which keys a row of sparse attention sees.
// k = rope(layer_norm(k)) goes to the cache of `layer`, q_h = rope(q_h); the first qk_rope_head_dim values of each turn.
// I_t = scale * sum_h weights_h * max(q_h . k_t, 0), rounded to float32; of the visible positions the index_topk with the largest
// I win, ties to the lowest position. layer_norm(k) = weight * (k - mean(k)) / sqrt(var(k) + eps) + bias.
struct SparseIndex {
  std::int32_t layer = 0;
  std::int64_t index_n_heads = 0, index_head_dim = 0, index_topk = 0, qk_rope_head_dim = 0;
  Pairing pairing = Pairing::half_split;
  float scale = 1;
  VectorId k_norm_weight = kNone, k_norm_bias = kNone;  // (index_head_dim)
  float k_norm_eps = 0;
  ValueId angles = kNone;    // (n, qk_rope_head_dim)
  ValueId q = kNone;         // (n, index_n_heads * index_head_dim); may be overwritten
  ValueId k = kNone;         // (n, index_head_dim); may be overwritten
  ValueId weights = kNone;   // (n, index_n_heads); may be negative
  ValueId selected = kNone;  // (n, index_topk): int32 in the float's place, min(index_topk, visible) positions ascending, then -1
};

enum class Scoring : std::uint8_t { softmax, sigmoid };
enum class GroupScore : std::uint8_t { none, max, top2_sum };  // none: no groups

// Mixture-of-experts router, float32. p = scoring(W norm(x)); c = p + bias (selection only); keep the topk_group best groups; the
// num_experts_per_tok largest c win, ties to the lowest index; weights = p of the winners, normalised to sum 1 if norm_topk_prob
// (sum + 1e-20), times routed_scaling_factor. Experts come out in ascending id.
struct Gate {
  ValueId x = kNone;  // (n, hidden_size)
  Norm norm{};
  MatrixId weight = kNone;  // (n_routed_experts, hidden_size)
  VectorId bias = kNone;    // (n_routed_experts): e_score_correction_bias
  std::int64_t n_routed_experts = 0, num_experts_per_tok = 0, n_group = 1, topk_group = 1;
  Scoring scoring = Scoring::softmax;
  GroupScore group_score = GroupScore::none;
  bool norm_topk_prob = false;
  float routed_scaling_factor = 1;
  ValueId ids = kNone;      // (n, num_experts_per_tok), int32 stored in the float's place (bit for bit)
  ValueId weights = kNone;  // (n, num_experts_per_tok)
};

// E(x) = down (activation(gate x) * up x). out = residual + (sum over the row's experts, ascending id, of w_e E_e(norm(x)) +
// E_shared(norm(x)))
struct Experts {
  ValueId x = kNone;  // (n, hidden_size)
  Norm norm{};
  ValueId ids = kNone, weights = kNone;  // of Gate, (n, num_experts_per_tok)
  std::int64_t n_routed_experts = 0, num_experts_per_tok = 0;
  MatrixId gate = kNone, up = kNone;                // (n_routed_experts, moe_intermediate_size, hidden_size)
  MatrixId down = kNone;                            // (n_routed_experts, hidden_size, moe_intermediate_size)
  MatrixId shared_gate = kNone, shared_up = kNone;  // (n_shared_experts * moe_intermediate_size, hidden_size) or kNone
  MatrixId shared_down = kNone;                     // (hidden_size, n_shared_experts * moe_intermediate_size) or kNone
  Activation activation = Activation::silu;
  ValueId residual = kNone;  // (n, hidden_size)
  ValueId out = kNone;       // (n, hidden_size); may be residual
};

// out = residual + post_norm(down (activation(gate norm(x)) * up norm(x)) )
struct GatedFfn {
  ValueId x = kNone;  // (n, hidden_size)
  Norm norm{};
  MatrixId gate = kNone, up = kNone;  // (intermediate_size, hidden_size)
  MatrixId down = kNone;              // (hidden_size, intermediate_size)
  VectorId gate_bias = kNone, up_bias = kNone, down_bias = kNone;
  Activation activation = Activation::silu;
  Norm post_norm{};
  ValueId residual = kNone;  // (n, hidden_size)
  ValueId out = kNone;       // (n, hidden_size); may be residual
};

// out[j] = cap(W norm(x[logit_row[j]]) + bias), for the rows whose logits are wanted; cap as in Attention.
struct Head {
  ValueId x = kNone;  // (n, hidden_size)
  Norm norm{};
  MatrixId weight = kNone;  // (vocab_size, hidden_size)
  VectorId bias = kNone;    // (vocab_size)
  float softcap = 0;
  ValueId out = kNone;  // (n_logits, vocab_size)
};

using Op =
    std::variant<Embed, Angles, Linear, Join, RopeCache, Attention, MlaAttention, SparseIndex, Gate, Experts, GatedFfn, Head>;

// "embed", "linear", ...: one word an op, for plans and messages.
DSV31_API const char* op_name(const Op& op) noexcept;

struct ValueDesc {
  std::int64_t width = 0;
  bool logits = false;  // one row for each wanted row instead of one a token
};

// The cache of one layer. A block of kBlock positions holds either K (num_key_value_heads, head_dim, kBlock), transposed so that
// one vector of keys is one load, then V (num_key_value_heads, kBlock, head_dim); or, with latent > 0, (kBlock, latent): MLA's
// [latent | k_pe], and then, with indexer > 0, the keys of SparseIndex (indexer, kBlock), transposed too. Elements are `type`;
// unwritten slots are zero.
struct CacheDesc {
  std::int64_t num_key_value_heads = 0, head_dim = 0;
  std::int64_t latent = 0;
  std::int64_t indexer = 0;  // index_head_dim
  std::int64_t window = 0;   // > 0: only the last `window` positions are ever read

  constexpr std::int64_t width() const {
    return latent > 0 ? latent + indexer : 2 * num_key_value_heads * head_dim;
  }  // elements a position
};

struct Graph {
  std::vector<Op> ops;
  std::vector<ValueDesc> values;
  std::vector<MatrixDesc> matrices;
  std::vector<std::int64_t> vector_widths;  // vectors are float32, decoded at load
  std::vector<CacheDesc> caches;            // by layer
  std::int64_t vocab_size = 0, hidden_size = 0, context_length = 0;
  ValueId hidden = kNone;  // (n, hidden_size) before the final norm
  ValueId logits = kNone;  // (n_logits, vocab_size)

  // The layer that predicts the token after the next (multi-token prediction), in models that were built with it: the ops from
  // draft_begin on run on their own. Their row j is made of the state of position j and the token at j + 1; its cache slot is j.
  std::int32_t draft_begin = kNone;  // index into ops
  ValueId state = kNone;             // (n, hidden_size) after the final norm
  ValueId draft_state = kNone;       // (n, hidden_size): where the draft layer finds the states of its rows
  ValueId draft_next = kNone;        // (n, hidden_size): its own states, from which it can draft on
  ValueId draft_logits = kNone;      // (n_logits, vocab_size)

  std::size_t trunk_end() const { return draft_begin == kNone ? ops.size() : static_cast<std::size_t>(draft_begin); }
};

}  // namespace dsv31::inline v1
