// Gemma 3: five sliding-window layers to a global one, each kind with a rope of its own; q and k normalised; a norm on the output
// of each half of a block before it is added; gelu gating; embeddings times sqrt(hidden_size). Its norms multiply by 1 + weight
// in Hugging Face checkpoints; GGUF files hold the sum.
#include <cmath>

#include "lib/model/architectures.h"
#include "lib/model/assembly.h"

namespace dsv31::inline v1::model {

void build_gemma3(Assembly& m) {
  const Config& c = m.config();
  const float plus = m.gguf() ? 0.0f : 1.0f;
  const ValueId global_angles = m.angles(c.rope, c.rope_dim);
  const ValueId local_angles = c.rope_local == c.rope ? global_angles : m.angles(c.rope_local, c.rope_dim);
  const ValueId x = m.embed(/*scale_by_sqrt=*/true);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    Scope block = m.layer(i);
    const std::int64_t window = c.window(i);
    const std::int32_t cache = m.cache({.num_key_value_heads = c.num_key_value_heads, .head_dim = c.head_dim, .window = window});
    const ValueId q = m.value(c.q_width()), k = m.value(c.kv_width()), v = m.value(c.kv_width()), heads = m.value(c.q_width());
    m.add(Linear{.x = x,
                 .norm = block.norm({"attn_norm", "input_layernorm"}, c.hidden_size, c.rms_norm_eps, plus),
                 .parts = block.qkv(c.attention_bias, q, k, v),
                 .post_norm = {}});
    m.add(RopeCache{.layer = cache,
                    .num_attention_heads = c.num_attention_heads,
                    .num_key_value_heads = c.num_key_value_heads,
                    .head_dim = c.head_dim,
                    .rope_dim = c.rope_dim,
                    .pairing = Pairing::half_split,
                    .q_norm = block.norm({"attn_q_norm", "self_attn.q_norm"}, c.head_dim, c.rms_norm_eps, plus),
                    .k_norm = block.norm({"attn_k_norm", "self_attn.k_norm"}, c.head_dim, c.rms_norm_eps, plus),
                    .angles = window > 0 ? local_angles : global_angles,
                    .q = q,
                    .k = k,
                    .v = v});
    m.add(Attention{.layer = cache,
                    .num_attention_heads = c.num_attention_heads,
                    .num_key_value_heads = c.num_key_value_heads,
                    .head_dim = c.head_dim,
                    .scale = static_cast<float>(1 / std::sqrt(c.query_pre_attn_scalar)),
                    .window = window,
                    .softcap = static_cast<float>(c.attn_logit_softcapping),
                    .q = q,
                    .out = heads});
    m.add(
        Linear{.x = heads,
               .norm = {},
               .parts = {block.part({"attn_output", "self_attn.o_proj"}, c.hidden_size, c.q_width(), c.attention_bias, x)},
               .post_norm = block.norm({"post_attention_norm", "post_attention_layernorm"}, c.hidden_size, c.rms_norm_eps, plus),
               .residual = x});
    m.add(GatedFfn{.x = x,
                   .norm = block.norm({"ffn_norm", "pre_feedforward_layernorm"}, c.hidden_size, c.rms_norm_eps, plus),
                   .gate = block.matrix({"ffn_gate", "mlp.gate_proj"}, c.intermediate_size, c.hidden_size),
                   .up = block.matrix({"ffn_up", "mlp.up_proj"}, c.intermediate_size, c.hidden_size),
                   .down = block.matrix({"ffn_down", "mlp.down_proj"}, c.hidden_size, c.intermediate_size),
                   .activation = c.hidden_act,
                   .post_norm = block.norm({"post_ffw_norm", "post_feedforward_layernorm"}, c.hidden_size, c.rms_norm_eps, plus),
                   .residual = x,
                   .out = x});
  }
  m.head(x, plus);
}

}  // namespace dsv31::inline v1::model
