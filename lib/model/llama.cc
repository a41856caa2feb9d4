// Llama 1 to 3 and the many models of its shape (SmolLM, Mistral without window, ...).
//   x += Wo attention(rope(Wq n), rope(Wk n), Wv n),  n = rms(x)
//   x += Wdown (silu(Wgate n) * Wup n),               n = rms(x)
// Hugging Face rotates halves of a head. GGUF files hold q and k with their rows permuted so that pairs lie side by side;
// llama3's stretched frequencies come in them as divisors, rope_freqs.weight.
#include <cmath>

#include "lib/model/architectures.h"
#include "lib/model/assembly.h"

namespace dsv31::inline v1::model {

void build_llama(Assembly& m) {
  const Config& c = m.config();
  const ValueId angles = m.angles(c.rope, c.rope_dim, /*divide=*/true);
  const ValueId x = m.embed();
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    Scope block = m.layer(i);
    const std::int32_t cache = m.cache({.num_key_value_heads = c.num_key_value_heads, .head_dim = c.head_dim});
    const ValueId q = m.value(c.q_width()), k = m.value(c.kv_width()), v = m.value(c.kv_width()), heads = m.value(c.q_width());
    m.add(Linear{.x = x,
                 .norm = block.norm({"attn_norm", "input_layernorm"}, c.hidden_size, c.rms_norm_eps),
                 .parts = block.qkv(c.attention_bias, q, k, v),
                 .post_norm = {}});
    m.add(RopeCache{.layer = cache,
                    .num_attention_heads = c.num_attention_heads,
                    .num_key_value_heads = c.num_key_value_heads,
                    .head_dim = c.head_dim,
                    .rope_dim = c.rope_dim,
                    .pairing = m.gguf() ? Pairing::interleaved : Pairing::half_split,
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
                    .q = q,
                    .out = heads});
    m.add(Linear{.x = heads,
                 .norm = {},
                 .parts = {block.part({"attn_output", "self_attn.o_proj"}, c.hidden_size, c.q_width(), c.attention_bias, x)},
                 .post_norm = {},
                 .residual = x});
    m.add(GatedFfn{.x = x,
                   .norm = block.norm({"ffn_norm", "post_attention_layernorm"}, c.hidden_size, c.rms_norm_eps),
                   .gate = block.matrix({"ffn_gate", "mlp.gate_proj"}, c.intermediate_size, c.hidden_size),
                   .up = block.matrix({"ffn_up", "mlp.up_proj"}, c.intermediate_size, c.hidden_size),
                   .down = block.matrix({"ffn_down", "mlp.down_proj"}, c.hidden_size, c.intermediate_size),
                   .gate_bias = block.bias({"ffn_gate", "mlp.gate_proj"}, c.intermediate_size, c.mlp_bias),
                   .up_bias = block.bias({"ffn_up", "mlp.up_proj"}, c.intermediate_size, c.mlp_bias),
                   .down_bias = block.bias({"ffn_down", "mlp.down_proj"}, c.hidden_size, c.mlp_bias),
                   .activation = c.hidden_act,
                   .post_norm = {},
                   .residual = x,
                   .out = x});
  }
  m.head(x);
}

}  // namespace dsv31::inline v1::model
