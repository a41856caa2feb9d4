// A one-layer graph of each attention kind, small enough to read.
#pragma once

#include "lib/graph/graph.h"

namespace sample {
using namespace dsv31;

inline constexpr int kHidden = 64, kVocab = 320;

inline MatrixDesc f32(std::int64_t rows, std::int64_t cols, std::int64_t count = 1) {
  return {.name = "m", .type = DType::f32, .count = count, .rows = rows, .cols = cols};
}

struct Dense {
  Graph graph;
  // op indices
  static constexpr std::size_t embed = 0, angles = 1, qkv = 2, rope = 3, attention = 4, o = 5, ffn = 6, head = 7;
};

// Two heads over one key-value head of 32; a gated feed-forward of 96.
inline Dense dense() {
  graph::Builder b(kVocab, kHidden, 1024);
  const ValueId x = b.value(kHidden), angles = b.value(32), q = b.value(64), k = b.value(32), v = b.value(32), y = b.value(64);
  const ValueId logits = b.logits(kVocab);
  const MatrixId embed = b.matrix(f32(kVocab, kHidden));
  const std::int32_t layer = b.cache({.num_key_value_heads = 1, .head_dim = 32});
  b.add(Embed{.weight = embed, .out = x});
  b.add(Angles{.inv_freq = std::vector<float>(16, 1.0f), .out = angles});
  b.add(Linear{
      .x = x,
      .norm = {b.vector(kHidden), 1e-6f},
      .parts = {{b.matrix(f32(64, 64)), b.vector(64), q}, {b.matrix(f32(32, 64)), kNone, k}, {b.matrix(f32(32, 64)), kNone, v}},
      .post_norm = {}});
  b.add(RopeCache{.layer = layer,
                  .num_attention_heads = 2,
                  .num_key_value_heads = 1,
                  .head_dim = 32,
                  .rope_dim = 32,
                  .q_norm = {b.vector(32), 1e-6f},
                  .k_norm = {},
                  .angles = angles,
                  .q = q,
                  .k = k,
                  .v = v});
  b.add(Attention{.layer = layer, .num_attention_heads = 2, .num_key_value_heads = 1, .head_dim = 32, .q = q, .out = y});
  b.add(Linear{.x = y, .norm = {}, .parts = {{b.matrix(f32(64, 64)), kNone, x}}, .post_norm = {}, .residual = x});
  b.add(GatedFfn{.x = x,
                 .norm = {b.vector(kHidden), 1e-6f},
                 .gate = b.matrix(f32(96, 64)),
                 .up = b.matrix(f32(96, 64)),
                 .down = b.matrix(f32(64, 96)),
                 .post_norm = {},
                 .residual = x,
                 .out = x});
  b.add(Head{.x = x, .norm = {b.vector(kHidden), 1e-6f}, .weight = embed, .out = logits});
  return {b.finish(x, logits)};
}

struct Mla {
  Graph graph;
  static constexpr std::size_t embed = 0, angles = 1, qc = 2, attention = 3, o = 4, gate = 5, experts = 6, head = 7;
};

// Latent attention (rank 32, nope 16, rope 8, v 24, four heads) and eight experts, three a token, with a shared one.
inline Mla mla() {
  graph::Builder b(kVocab, kHidden, 1024);
  const ValueId x = b.value(kHidden), angles = b.value(8), q = b.value(96), c = b.value(40), y = b.value(96);
  const ValueId ids = b.value(3), weights = b.value(3), logits = b.logits(kVocab);
  const std::int32_t layer = b.cache({.latent = 40});
  b.add(Embed{.weight = b.matrix(f32(kVocab, kHidden)), .out = x});
  b.add(Angles{.inv_freq = std::vector<float>(4, 1.0f), .out = angles});
  b.add(Linear{.x = x,
               .norm = {b.vector(kHidden), 1e-6f},
               .parts = {{b.matrix(f32(96, 64)), kNone, q}, {b.matrix(f32(40, 64)), kNone, c}},
               .post_norm = {}});
  b.add(MlaAttention{.layer = layer,
                     .num_attention_heads = 4,
                     .kv_lora_rank = 32,
                     .qk_nope_head_dim = 16,
                     .qk_rope_head_dim = 8,
                     .v_head_dim = 24,
                     .kv_norm = {b.vector(32), 1e-6f},
                     .k_b = b.matrix(f32(32, 16, 4)),
                     .v_b = b.matrix(f32(24, 32, 4)),
                     .angles = angles,
                     .q = q,
                     .c = c,
                     .out = y});
  b.add(Linear{.x = y, .norm = {}, .parts = {{b.matrix(f32(64, 96)), kNone, x}}, .post_norm = {}, .residual = x});
  b.add(Gate{.x = x,
             .norm = {b.vector(kHidden), 1e-6f},
             .weight = b.matrix(f32(8, 64)),
             .bias = b.vector(8),
             .n_routed_experts = 8,
             .num_experts_per_tok = 3,
             .n_group = 4,
             .topk_group = 2,
             .group_score = GroupScore::top2_sum,
             .ids = ids,
             .weights = weights});
  b.add(Experts{.x = x,
                .norm = {b.vector(kHidden), 1e-6f},
                .ids = ids,
                .weights = weights,
                .n_routed_experts = 8,
                .num_experts_per_tok = 3,
                .gate = b.matrix(f32(32, 64, 8)),
                .up = b.matrix(f32(32, 64, 8)),
                .down = b.matrix(f32(64, 32, 8)),
                .shared_gate = b.matrix(f32(48, 64)),
                .shared_up = b.matrix(f32(48, 64)),
                .shared_down = b.matrix(f32(64, 48)),
                .residual = x,
                .out = x});
  b.add(Head{.x = x, .norm = {b.vector(kHidden), 1e-6f}, .weight = b.matrix(f32(kVocab, kHidden)), .out = logits});
  return {b.finish(x, logits)};
}

}  // namespace sample
