// DeepSeek V2, V2-Lite, V3, R1, V3.1 and V3.2: multi-head latent attention and a mixture of experts with shared ones.
//   q = W_qb rms(W_qa n) or W_q n;  [latent | k_pe] = W_kva n;  x += Wo MLA(q, latent, k_pe),  n = rms(x)
//   x += sum of w_e E_e(n) over the chosen experts + E_shared(n), or a dense feed-forward,    n = rms(x)
// Attention runs in its absorbed form, so kv_b is split by heads: k_b is W_UK transposed (GGUF files hold it so), v_b is W_UV.
// V3.2 chooses the keys of each row by a small indexer with keys of its own, which reads n and the normalised W_qa n.
// Papers: DeepSeek-V2 (arXiv 2405.04434, section 2), DeepSeek-V3 (arXiv 2412.19437, section 2.1).
#include <cmath>
#include <utility>

#include "lib/model/architectures.h"
#include "lib/model/assembly.h"
#include "lib/model/rope.h"

namespace dsv31::inline v1::model {
namespace {

// The reference never passes rms_norm_eps to the norms inside attention: they keep their class's default.
constexpr double kLoraNormEps = 1e-6;
constexpr double kIndexNormEps = 1e-6;

struct Absorbed {
  MatrixId k_b, v_b;
};

Absorbed absorbed(const Assembly& m, Scope& block) {
  const Config& c = m.config();
  if (m.gguf() && block.has({"attn_k_b", ""}))
    return {block.stack({"attn_k_b", ""}, c.num_attention_heads, c.kv_lora_rank, c.qk_nope_head_dim),
            block.stack({"attn_v_b", ""}, c.num_attention_heads, c.v_head_dim, c.kv_lora_rank)};
  const Name kv_b{"attn_kv_b", "self_attn.kv_b_proj"};
  const std::int64_t stride = c.qk_nope_head_dim + c.v_head_dim;  // rows of a head: k_nope, then v
  return {
      block.heads(kv_b, c.num_attention_heads, stride, 0, c.qk_nope_head_dim, c.kv_lora_rank, /*transpose=*/true),
      block.heads(kv_b, c.num_attention_heads, stride, c.qk_nope_head_dim, c.v_head_dim, c.kv_lora_rank, /*transpose=*/false)};
}

// The indexer's projections are parts of the layer's own: q of W_qb's input, k and weights of n. The weights stay in float32.
struct Indexer {
  Linear::Part q, k, weights;
  SparseIndex op;
};

Indexer bind_indexer(Assembly& m, Scope& block, ValueId angles, std::int32_t cache) {
  const Config& c = m.config();
  const std::int64_t q_width = c.index_n_heads * c.index_head_dim;
  const Name k_norm{"indexer.k_norm", "self_attn.indexer.k_norm"};
  Indexer i;
  i.op = {.layer = cache,
          .index_n_heads = c.index_n_heads,
          .index_head_dim = c.index_head_dim,
          .index_topk = c.index_topk,
          .qk_rope_head_dim = c.qk_rope_head_dim,
          .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(q_width))),
          .k_norm_weight = block.norm(k_norm, c.index_head_dim, kIndexNormEps).weight,
          .k_norm_bias = block.bias(k_norm, c.index_head_dim, /*wanted=*/true),
          .k_norm_eps = static_cast<float>(kIndexNormEps),
          .angles = angles,
          .q = m.value(q_width),
          .k = m.value(c.index_head_dim),
          .weights = m.value(c.index_n_heads),
          .selected = m.value(c.index_topk)};
  i.q = block.part({"indexer.attn_q_b", "self_attn.indexer.wq_b"}, q_width, c.q_lora_rank, /*bias_wanted=*/false, i.op.q);
  i.k = block.part({"indexer.attn_k", "self_attn.indexer.wk"}, c.index_head_dim, c.hidden_size, /*bias_wanted=*/false, i.op.k);
  i.weights = {.weight = block.float_matrix({"indexer.proj", "self_attn.indexer.weights_proj"}, c.index_n_heads, c.hidden_size),
               .out = i.op.weights};
  return i;
}

// A draft layer may come without an indexer; it then attends to all keys.
void attention(Assembly& m, Scope& block, ValueId angles, ValueId x, bool draft = false) {
  const Config& c = m.config();
  const bool indexed = c.index_topk > 0 && (!draft || block.has({"indexer.attn_k", "self_attn.indexer.wk"}));
  const std::int64_t q_width = c.num_attention_heads * c.head_dim, c_width = c.kv_lora_rank + c.qk_rope_head_dim;
  const std::int64_t o_width = c.num_attention_heads * c.v_head_dim;
  const std::int32_t cache = m.cache({.latent = c_width, .indexer = indexed ? c.index_head_dim : 0});
  const ValueId q = m.value(q_width), latent = m.value(c_width), heads = m.value(o_width);
  const Norm norm = block.norm({"attn_norm", "input_layernorm"}, c.hidden_size, c.rms_norm_eps);
  const Linear::Part kv_a =
      block.part({"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"}, c_width, c.hidden_size, c.attention_bias, latent);
  const Indexer indexer = indexed ? bind_indexer(m, block, angles, cache) : Indexer{};
  if (c.q_lora_rank > 0) {
    const ValueId q_a = m.value(c.q_lora_rank);
    Linear down{
        .x = x,
        .norm = norm,
        .parts = {block.part({"attn_q_a", "self_attn.q_a_proj"}, c.q_lora_rank, c.hidden_size, c.attention_bias, q_a), kv_a},
        .post_norm = {}};
    Linear up{.x = q_a,
              .norm = block.norm({"attn_q_a_norm", "self_attn.q_a_layernorm"}, c.q_lora_rank, kLoraNormEps),
              .parts = {block.part({"attn_q_b", "self_attn.q_b_proj"}, q_width, c.q_lora_rank, /*bias_wanted=*/false, q)},
              .post_norm = {}};
    if (indexed) {
      down.parts.insert(down.parts.end(), {indexer.k, indexer.weights});
      up.parts.push_back(indexer.q);
    }
    m.add(std::move(down));
    m.add(std::move(up));
    if (indexed) m.add(indexer.op);
  } else {
    m.add(Linear{.x = x,
                 .norm = norm,
                 .parts = {block.part({"attn_q", "self_attn.q_proj"}, q_width, c.hidden_size, /*bias_wanted=*/false, q), kv_a},
                 .post_norm = {}});
  }
  const Absorbed kv_b = absorbed(m, block);
  m.add(MlaAttention{.layer = cache,
                     .num_attention_heads = c.num_attention_heads,
                     .kv_lora_rank = c.kv_lora_rank,
                     .qk_nope_head_dim = c.qk_nope_head_dim,
                     .qk_rope_head_dim = c.qk_rope_head_dim,
                     .v_head_dim = c.v_head_dim,
                     .pairing = c.rope_interleave ? Pairing::interleaved : Pairing::half_split,
                     .scale = static_cast<float>(mla_scale(c.rope, c.head_dim)),
                     .kv_norm = block.norm({"attn_kv_a_norm", "self_attn.kv_a_layernorm"}, c.kv_lora_rank, kLoraNormEps),
                     .k_b = kv_b.k_b,
                     .v_b = kv_b.v_b,
                     .angles = angles,
                     .q = q,
                     .c = latent,
                     .selected = indexer.op.selected,
                     .out = heads});
  m.add(Linear{.x = heads,
               .norm = {},
               .parts = {block.part({"attn_output", "self_attn.o_proj"}, c.hidden_size, o_width, c.attention_bias, x)},
               .post_norm = {},
               .residual = x});
}

void dense(Assembly& m, Scope& block, ValueId x) {
  const Config& c = m.config();
  m.add(GatedFfn{.x = x,
                 .norm = block.norm({"ffn_norm", "post_attention_layernorm"}, c.hidden_size, c.rms_norm_eps),
                 .gate = block.matrix({"ffn_gate", "mlp.gate_proj"}, c.intermediate_size, c.hidden_size),
                 .up = block.matrix({"ffn_up", "mlp.up_proj"}, c.intermediate_size, c.hidden_size),
                 .down = block.matrix({"ffn_down", "mlp.down_proj"}, c.hidden_size, c.intermediate_size),
                 .activation = c.hidden_act,
                 .post_norm = {},
                 .residual = x,
                 .out = x});
}

void mixture(Assembly& m, Scope& block, ValueId x) {
  const Config& c = m.config();
  const ValueId ids = m.value(c.num_experts_per_tok), weights = m.value(c.num_experts_per_tok);
  const Norm norm = block.norm({"ffn_norm", "post_attention_layernorm"}, c.hidden_size, c.rms_norm_eps);
  const Name bias{"exp_probs_b.bias", "mlp.gate.e_score_correction_bias"};
  m.add(Gate{.x = x,
             .norm = norm,
             .weight = block.float_matrix({"ffn_gate_inp", "mlp.gate"}, c.n_routed_experts, c.hidden_size),
             .bias = c.selection_bias || (m.gguf() && block.holds(bias)) ? block.vector(bias, c.n_routed_experts) : kNone,
             .n_routed_experts = c.n_routed_experts,
             .num_experts_per_tok = c.num_experts_per_tok,
             .n_group = c.n_group,
             .topk_group = c.topk_group,
             .scoring = c.scoring_func,
             .group_score = c.group_score,
             .norm_topk_prob = c.norm_topk_prob,
             .routed_scaling_factor = static_cast<float>(c.routed_scaling_factor),
             .ids = ids,
             .weights = weights});
  const Scope::ExpertMatrices experts = block.experts(c.n_routed_experts, c.moe_intermediate_size, c.hidden_size);
  const std::int64_t shared = c.n_shared_experts * c.moe_intermediate_size;  // one feed-forward of their joint width
  const auto shared_matrix = [&](Name name, std::int64_t rows, std::int64_t cols) {
    return shared > 0 ? block.matrix(name, rows, cols) : kNone;
  };
  m.add(Experts{.x = x,
                .norm = norm,
                .ids = ids,
                .weights = weights,
                .n_routed_experts = c.n_routed_experts,
                .num_experts_per_tok = c.num_experts_per_tok,
                .gate = experts.gate,
                .up = experts.up,
                .down = experts.down,
                .shared_gate = shared_matrix({"ffn_gate_shexp", "mlp.shared_experts.gate_proj"}, shared, c.hidden_size),
                .shared_up = shared_matrix({"ffn_up_shexp", "mlp.shared_experts.up_proj"}, shared, c.hidden_size),
                .shared_down = shared_matrix({"ffn_down_shexp", "mlp.shared_experts.down_proj"}, c.hidden_size, shared),
                .activation = c.hidden_act,
                .residual = x,
                .out = x});
}

// Multi-token prediction (DeepSeek-V3, section 2.2): row j has the state of position j and the token at j + 1, and predicts the
// one at j + 2.  u = W_eh [rms(embed(t)) ; rms(state)];  y = block(u);  logits = W rms(y) The rows stand at position j instead of
// j + 1: attention sees differences of positions only.
void draft_layer(Assembly& m) {
  const Config& c = m.config();
  Scope block = m.layer(c.num_hidden_layers);
  const ValueId state = m.begin_draft();
  const ValueId angles = m.angles(c.rope, c.qk_rope_head_dim);
  const ValueId embedded = m.value(c.hidden_size), both = m.value(2 * c.hidden_size), x = m.value(c.hidden_size);
  const Name own{"nextn.embed_tokens", "embed_tokens"};
  m.add(Embed{.weight = block.has(own) ? block.matrix(own, c.vocab_size, c.hidden_size) : m.embedding(), .out = embedded});
  m.add(Join{.parts = {{embedded, block.norm({"nextn.enorm", "enorm"}, c.hidden_size, c.rms_norm_eps)},
                       {state, block.norm({"nextn.hnorm", "hnorm"}, c.hidden_size, c.rms_norm_eps)}},
             .out = both});
  m.add(Linear{.x = both,
               .norm = {},
               .parts = {block.part({"nextn.eh_proj", "eh_proj"}, c.hidden_size, 2 * c.hidden_size, /*bias_wanted=*/false, x)},
               .post_norm = {}});
  attention(m, block, angles, x, /*draft=*/true);
  if (block.has({"ffn_gate_inp", "mlp.gate"}))
    mixture(m, block, x);
  else
    dense(m, block, x);
  m.draft_head(block, x);
}

}  // namespace

void build_deepseek(Assembly& m) {
  const Config& c = m.config();
  const ValueId angles = m.angles(c.rope, c.qk_rope_head_dim);
  const ValueId x = m.embed();
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    Scope block = m.layer(i);
    attention(m, block, angles, x);
    if (c.sparse[static_cast<std::size_t>(i)])
      mixture(m, block, x);
    else
      dense(m, block, x);
  }
  m.head(x);
  if (m.drafts()) draft_layer(m);
}

}  // namespace dsv31::inline v1::model
