// The fields of every op, once, with the shape each must have. uses() and validate() are two visitors of this one description, so
// an op that is added or changed cannot be seen differently by the two.
//
// A visitor V has: read, write, destroy (read, and then worth nothing), change (read and written in place) for values;
// matrix, vector, and the caches of a layer; each takes the field's name, the id, and the shape. The maybe_ forms accept kNone.
// width(id) and rows_of / cols_of give the declared shape, 0 for a bad id; expect(field, got, expected) compares; require(field,
// condition, text) states a rule.
#pragma once

#include <string>

#include "dsv31/op.h"

namespace dsv31::inline v1::graph {

template <class V>
void each_norm(const char* field, const Norm& norm, std::int64_t width, V& v) {
  v.maybe_vector(field, norm.weight, width);
  v.require(field, norm.eps >= 0 && norm.eps < 1, "an eps in [0, 1)");
}

template <class V>
void each_field(const Embed& op, V& v) {
  v.matrix("weight", op.weight, 1, v.vocab_size(), v.width(op.out));
  v.write("out", op.out, v.hidden_size());
}

template <class V>
void each_field(const Angles& op, V& v) {
  v.require("inv_freq", !op.inv_freq.empty(), "at least one frequency");
  v.write("out", op.out, static_cast<std::int64_t>(op.inv_freq.size()) * 2);
}

template <class V>
void each_field(const Linear& op, V& v) {
  v.read("x", op.x, v.width(op.x));
  each_norm("norm", op.norm, v.width(op.x), v);
  v.require("parts", !op.parts.empty(), "at least one part");
  v.require("residual", op.residual == kNone || op.parts.size() == 1, "one part where there is a residual");
  v.require("post_norm", op.post_norm.weight == kNone || op.parts.size() == 1, "one part where there is a post_norm");
  for (std::size_t i = 0; i < op.parts.size(); ++i) {
    const Linear::Part& part = op.parts[i];
    const std::string field = "parts[" + std::to_string(i) + "].";
    v.matrix((field + "weight").c_str(), part.weight, 1, v.width(part.out), v.width(op.x));
    v.maybe_vector((field + "bias").c_str(), part.bias, v.width(part.out));
    each_norm("post_norm", op.post_norm, v.width(part.out), v);
    v.maybe_read("residual", op.residual, v.width(part.out));
    v.write((field + "out").c_str(), part.out, v.width(part.out));
    v.require((field + "out").c_str(), part.out != op.x, "another value than x");
  }
}

template <class V>
void each_field(const Join& op, V& v) {
  v.require("parts", !op.parts.empty(), "at least one part");
  std::int64_t width = 0;
  for (std::size_t i = 0; i < op.parts.size(); ++i) {
    const std::string field = "parts[" + std::to_string(i) + "].";
    v.read((field + "x").c_str(), op.parts[i].x, v.width(op.parts[i].x));
    each_norm((field + "norm").c_str(), op.parts[i].norm, v.width(op.parts[i].x), v);
    v.require("out", op.parts[i].x != op.out, "another value than the parts");
    width += v.width(op.parts[i].x);
  }
  v.write("out", op.out, width);
}

template <class V>
void each_field(const RopeCache& op, V& v) {
  v.require("num_key_value_heads",
            op.num_key_value_heads > 0 && op.num_attention_heads > 0 && op.num_attention_heads % op.num_key_value_heads == 0,
            "a positive divisor of num_attention_heads");
  v.require("rope_dim", op.rope_dim > 0 && op.rope_dim % 2 == 0 && op.rope_dim <= op.head_dim, "an even number up to head_dim");
  v.head_cache("layer", op.layer, op.num_key_value_heads, op.head_dim);
  each_norm("q_norm", op.q_norm, op.head_dim, v);
  each_norm("k_norm", op.k_norm, op.head_dim, v);
  v.read("angles", op.angles, op.rope_dim);
  v.change("q", op.q, op.num_attention_heads * op.head_dim);
  v.read("k", op.k, op.num_key_value_heads * op.head_dim);
  v.read("v", op.v, op.num_key_value_heads * op.head_dim);
}

template <class V>
void each_field(const Attention& op, V& v) {
  v.require("num_key_value_heads",
            op.num_key_value_heads > 0 && op.num_attention_heads > 0 && op.num_attention_heads % op.num_key_value_heads == 0,
            "a positive divisor of num_attention_heads");
  v.head_cache("layer", op.layer, op.num_key_value_heads, op.head_dim);
  v.window("window", op.layer, op.window);
  v.require("softcap", op.softcap >= 0, "a number >= 0");
  v.read("q", op.q, op.num_attention_heads * op.head_dim);
  v.write("out", op.out, op.num_attention_heads * op.head_dim);
  v.require("out", op.out != op.q, "another value than q");
}

template <class V>
void each_field(const MlaAttention& op, V& v) {
  v.require("num_attention_heads", op.num_attention_heads > 0, "a number > 0");
  v.require("qk_rope_head_dim", op.qk_rope_head_dim > 0 && op.qk_rope_head_dim % 2 == 0, "an even number > 0");
  v.latent_cache("layer", op.layer, op.kv_lora_rank + op.qk_rope_head_dim);
  each_norm("kv_norm", op.kv_norm, op.kv_lora_rank, v);
  v.matrix("k_b", op.k_b, op.num_attention_heads, op.kv_lora_rank, op.qk_nope_head_dim);
  v.matrix("v_b", op.v_b, op.num_attention_heads, op.v_head_dim, op.kv_lora_rank);
  v.read("angles", op.angles, op.qk_rope_head_dim);
  v.destroy("q", op.q, op.num_attention_heads * (op.qk_nope_head_dim + op.qk_rope_head_dim));
  v.destroy("c", op.c, op.kv_lora_rank + op.qk_rope_head_dim);
  v.maybe_read("selected", op.selected, v.width(op.selected));
  v.write("out", op.out, op.num_attention_heads * op.v_head_dim);
  v.require("out", op.out != op.q && op.out != op.c, "another value than q and c");
}

template <class V>
void each_field(const SparseIndex& op, V& v) {
  v.require("index_n_heads", op.index_n_heads > 0, "a number > 0");
  v.require("index_topk", op.index_topk > 0, "a number > 0");
  v.require("qk_rope_head_dim",
            op.qk_rope_head_dim > 0 && op.qk_rope_head_dim % 2 == 0 && op.qk_rope_head_dim <= op.index_head_dim,
            "an even number up to index_head_dim");
  v.require("k_norm_eps", op.k_norm_eps >= 0 && op.k_norm_eps < 1, "an eps in [0, 1)");
  v.indexer_cache("layer", op.layer, op.index_head_dim);
  v.vector("k_norm_weight", op.k_norm_weight, op.index_head_dim);
  v.vector("k_norm_bias", op.k_norm_bias, op.index_head_dim);
  v.read("angles", op.angles, op.qk_rope_head_dim);
  v.destroy("q", op.q, op.index_n_heads * op.index_head_dim);
  v.destroy("k", op.k, op.index_head_dim);
  v.read("weights", op.weights, op.index_n_heads);
  v.write("selected", op.selected, op.index_topk);
}

template <class V>
void each_field(const Gate& op, V& v) {
  v.require("num_experts_per_tok", op.num_experts_per_tok > 0 && op.num_experts_per_tok <= op.n_routed_experts,
            "1 to n_routed_experts");
  v.require("n_group", op.n_group > 0 && op.n_routed_experts % op.n_group == 0, "a positive divisor of n_routed_experts");
  v.require("topk_group", op.topk_group > 0 && op.topk_group <= op.n_group, "1 to n_group");
  v.require("topk_group",
            op.group_score == GroupScore::none || op.n_group <= 0 ||
                op.num_experts_per_tok <= op.n_routed_experts / op.n_group * op.topk_group,
            "groups that hold num_experts_per_tok experts");
  v.require("group_score", op.group_score != GroupScore::top2_sum || op.n_group <= 0 || op.n_routed_experts / op.n_group >= 2,
            "at least two experts a group");
  v.read("x", op.x, v.hidden_size());
  each_norm("norm", op.norm, v.hidden_size(), v);
  v.matrix("weight", op.weight, 1, op.n_routed_experts, v.hidden_size());
  v.maybe_vector("bias", op.bias, op.n_routed_experts);
  v.write("ids", op.ids, op.num_experts_per_tok);
  v.write("weights", op.weights, op.num_experts_per_tok);
}

template <class V>
void each_field(const Experts& op, V& v) {
  v.require("num_experts_per_tok", op.num_experts_per_tok > 0 && op.num_experts_per_tok <= op.n_routed_experts,
            "1 to n_routed_experts");
  v.read("x", op.x, v.hidden_size());
  each_norm("norm", op.norm, v.hidden_size(), v);
  v.read("ids", op.ids, op.num_experts_per_tok);
  v.read("weights", op.weights, op.num_experts_per_tok);
  const std::int64_t width = v.rows_of(op.gate);
  v.matrix("gate", op.gate, op.n_routed_experts, width, v.hidden_size());
  v.matrix("up", op.up, op.n_routed_experts, width, v.hidden_size());
  v.matrix("down", op.down, op.n_routed_experts, v.hidden_size(), width);
  v.require("shared_gate",
            (op.shared_gate == kNone) == (op.shared_up == kNone) && (op.shared_gate == kNone) == (op.shared_down == kNone),
            "shared_gate, shared_up and shared_down together or none");
  const std::int64_t shared_width = v.rows_of(op.shared_gate);
  v.maybe_matrix("shared_gate", op.shared_gate, 1, shared_width, v.hidden_size());
  v.maybe_matrix("shared_up", op.shared_up, 1, shared_width, v.hidden_size());
  v.maybe_matrix("shared_down", op.shared_down, 1, v.hidden_size(), shared_width);
  v.maybe_read("residual", op.residual, v.hidden_size());
  v.write("out", op.out, v.hidden_size());
}

template <class V>
void each_field(const GatedFfn& op, V& v) {
  v.read("x", op.x, v.hidden_size());
  each_norm("norm", op.norm, v.hidden_size(), v);
  const std::int64_t width = v.rows_of(op.gate);
  v.matrix("gate", op.gate, 1, width, v.hidden_size());
  v.matrix("up", op.up, 1, width, v.hidden_size());
  v.matrix("down", op.down, 1, v.hidden_size(), width);
  v.maybe_vector("gate_bias", op.gate_bias, width);
  v.maybe_vector("up_bias", op.up_bias, width);
  v.maybe_vector("down_bias", op.down_bias, v.hidden_size());
  each_norm("post_norm", op.post_norm, v.hidden_size(), v);
  v.maybe_read("residual", op.residual, v.hidden_size());
  v.write("out", op.out, v.hidden_size());
}

template <class V>
void each_field(const Head& op, V& v) {
  v.read("x", op.x, v.hidden_size());
  each_norm("norm", op.norm, v.hidden_size(), v);
  v.matrix("weight", op.weight, 1, v.vocab_size(), v.hidden_size());
  v.maybe_vector("bias", op.bias, v.vocab_size());
  v.require("softcap", op.softcap >= 0, "a number >= 0");
  v.write_logits("out", op.out, v.vocab_size());
}

}  // namespace dsv31::inline v1::graph
