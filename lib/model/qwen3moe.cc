// Qwen3-MoE: Qwen3's attention; in sparse layers a softmax gate over all experts, the best num_experts_per_tok of them, no shared
// expert. Sparse are the layers that decoder_sparse_step hits and mlp_only_layers does not name.
#include "lib/model/architectures.h"
#include "lib/model/qwen3.h"

namespace dsv31::inline v1::model {

void build_qwen3moe(Assembly& m) {
  const Config& c = m.config();
  const ValueId angles = m.angles(c.rope, c.rope_dim);
  const ValueId x = m.embed();
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    Scope block = m.layer(i);
    qwen3_attention(m, block, angles, x, i);
    if (!c.sparse[static_cast<std::size_t>(i)]) {
      qwen3_feed_forward(m, block, x);
      continue;
    }
    const ValueId ids = m.value(c.num_experts_per_tok), weights = m.value(c.num_experts_per_tok);
    const Norm norm = block.norm({"ffn_norm", "post_attention_layernorm"}, c.hidden_size, c.rms_norm_eps);
    m.add(Gate{.x = x,
               .norm = norm,
               .weight = block.float_matrix({"ffn_gate_inp", "mlp.gate"}, c.n_routed_experts, c.hidden_size),
               .n_routed_experts = c.n_routed_experts,
               .num_experts_per_tok = c.num_experts_per_tok,
               .scoring = Scoring::softmax,
               .norm_topk_prob = c.norm_topk_prob,
               .ids = ids,
               .weights = weights});
    const Scope::ExpertMatrices experts = block.experts(c.n_routed_experts, c.moe_intermediate_size, c.hidden_size);
    m.add(Experts{.x = x,
                  .norm = norm,
                  .ids = ids,
                  .weights = weights,
                  .n_routed_experts = c.n_routed_experts,
                  .num_experts_per_tok = c.num_experts_per_tok,
                  .gate = experts.gate,
                  .up = experts.up,
                  .down = experts.down,
                  .activation = c.hidden_act,
                  .residual = x,
                  .out = x});
  }
  m.head(x);
}

}  // namespace dsv31::inline v1::model
