// Qwen2 and Qwen2.5: llama's block with biases on q, k and v, halves rotated in both containers, and optionally a sliding window
// on the later layers.
#include <cmath>

#include "lib/model/architectures.h"
#include "lib/model/assembly.h"

namespace dsv31::inline v1::model {

void build_qwen2(Assembly& m) {
  const Config& c = m.config();
  const ValueId angles = m.angles(c.rope, c.rope_dim);
  const ValueId x = m.embed();
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    Scope block = m.layer(i);
    const std::int64_t window = c.window(i);
    const std::int32_t cache = m.cache({.num_key_value_heads = c.num_key_value_heads, .head_dim = c.head_dim, .window = window});
    const ValueId q = m.value(c.q_width()), k = m.value(c.kv_width()), v = m.value(c.kv_width()), heads = m.value(c.q_width());
    m.add(Linear{.x = x,
                 .norm = block.norm({"attn_norm", "input_layernorm"}, c.hidden_size, c.rms_norm_eps),
                 .parts = block.qkv(/*bias_wanted=*/true, q, k, v),
                 .post_norm = {}});
    m.add(RopeCache{.layer = cache,
                    .num_attention_heads = c.num_attention_heads,
                    .num_key_value_heads = c.num_key_value_heads,
                    .head_dim = c.head_dim,
                    .rope_dim = c.rope_dim,
                    .pairing = Pairing::half_split,
                    .q_norm = {},
                    .k_norm = {},
                    .angles = angles,
                    .q = q,
                    .k = k,
                    .v = v});
    m.add(Attention{.layer = cache,
                    .num_attention_heads = c.num_attention_heads,
                    .num_key_value_heads = c.num_key_value_heads,
                    .head_dim = c.head_dim,
                    .scale = 1 / std::sqrt(static_cast<float>(c.head_dim)),
                    .window = window,
                    .q = q,
                    .out = heads});
    m.add(Linear{.x = heads,
                 .norm = {},
                 .parts = {block.part({"attn_output", "self_attn.o_proj"}, c.hidden_size, c.q_width(), /*bias_wanted=*/false, x)},
                 .post_norm = {},
                 .residual = x});
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
  m.head(x);
}

}  // namespace dsv31::inline v1::model
