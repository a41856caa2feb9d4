#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "tests/backends/conformance/cases.h"

namespace conformance {
namespace {

struct MlaOptions {
  DType k_type = DType::f32, v_type = DType::f32;
  std::int64_t heads = 2, rank = 64, nope = 32, rope = 16, v = 24;
  Pairing pairing = Pairing::interleaved;
  std::int64_t topk = 0;  // > 0: selected keys, this many at most
  std::vector<Past> sequences = {{0, 3}};
};

// For each row min(topk, visible) of the positions that it sees, ascending, then -1.
std::vector<float> random_lists(CaseBuilder& b, const std::vector<Past>& sequences, std::int64_t topk) {
  std::vector<float> lists;
  for (const Past& s : sequences)
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const VisibleKeys keys = visible_keys(s.window, 0, s.position + r);
      std::int64_t left = std::min(topk, keys.count());
      for (std::int64_t n = 0; n < keys.count(); ++n)
        if (b.random().below(keys.count() - n) < left) {
          lists.push_back(std::bit_cast<float>(static_cast<std::int32_t>(keys.at(n))));
          --left;
        }
      lists.resize(
          (lists.size() + static_cast<std::size_t>(topk) - 1) / static_cast<std::size_t>(topk) * static_cast<std::size_t>(topk),
          std::bit_cast<float>(std::int32_t{-1}));
    }
  return lists;
}

OpCase mla(const MlaOptions& o) {
  std::string name = fmt::format("mla {} {} {}x{}+{}{}", type_name(o.k_type), type_name(o.v_type), o.heads, o.rank, o.rope,
                                 o.pairing == Pairing::half_split ? " half" : "");
  if (o.topk > 0) name += fmt::format(" top {}", o.topk);
  for (const Past& s : o.sequences) name += " " + s.name();
  CaseBuilder b(name, o.sequences);
  b.cache(1, {.latent = o.rank + o.rope, .indexer = o.topk > 0 ? 5 : 0}, false);
  MlaAttention op{.layer = 1,
                  .num_attention_heads = o.heads,
                  .kv_lora_rank = o.rank,
                  .qk_nope_head_dim = o.nope,
                  .qk_rope_head_dim = o.rope,
                  .v_head_dim = o.v,
                  .pairing = o.pairing};
  op.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(o.nope + o.rope)));
  op.kv_norm = b.norm(o.rank);
  op.k_b = b.matrix(o.k_type, o.heads, o.rank, o.nope);
  op.v_b = b.matrix(o.v_type, o.heads, o.v, o.rank);
  op.angles = b.input(o.rope, 0.7);  // not of length 1, which no op needs
  op.q = b.inout(b.input(o.heads * (o.nope + o.rope)), false);
  op.c = b.inout(b.input(o.rank + o.rope), false);
  if (o.topk > 0) op.selected = b.input_of(o.topk, random_lists(b, o.sequences, o.topk));
  op.out = b.output(o.heads * o.v);
  std::int64_t longest = 0;
  for (const Past& s : o.sequences) longest = std::max(longest, s.position + s.rows);
  return b.finish(op, static_cast<double>(o.nope + 3 * o.rank + o.rope + longest + 64));
}

}  // namespace

void add_mla_cases(std::vector<OpCase>& cases) {
  cases.push_back(mla({}));
  cases.push_back(mla({.heads = 1, .rank = 10, .nope = 5, .rope = 6, .v = 3, .sequences = {{4, 2}}}));
  cases.push_back(mla({.pairing = Pairing::half_split, .sequences = {{62, 4}, {0, 1}}}));
  cases.push_back(mla({.heads = 5, .sequences = {{254, 4}, {255, 1}, {256, 1}, {600, 2}}}));
  cases.push_back(mla({.k_type = DType::bf16,
                       .v_type = DType::bf16,
                       .heads = 3,
                       .rank = 128,
                       .nope = 64,
                       .rope = 32,
                       .v = 48,
                       .sequences = {{0, 80}}}));
  cases.push_back(mla({.k_type = DType::f16,
                       .v_type = DType::f16,
                       .heads = 16,
                       .rank = 512,
                       .nope = 128,
                       .rope = 64,
                       .v = 128,
                       .sequences = {{70, 1}, {300, 1}}}));
  cases.push_back(mla({.k_type = DType::f8_e4m3,
                       .v_type = DType::f8_e4m3,
                       .heads = 4,
                       .rank = 129,
                       .nope = 33,
                       .v = 130,
                       .sequences = {{9, 3}}}));
  cases.push_back(
      mla({.k_type = DType::q8_0, .v_type = DType::q8_0, .heads = 3, .rank = 128, .nope = 64, .sequences = {{100, 5}}}));
  cases.push_back(mla({.k_type = DType::q8_0,
                       .v_type = DType::q4_k,
                       .heads = 4,
                       .rank = 512,
                       .nope = 128,
                       .rope = 64,
                       .v = 128,
                       .sequences = {{300, 1}, {2, 3}}}));
  cases.push_back(
      mla({.k_type = DType::q4_0, .v_type = DType::q4_k, .heads = 2, .rank = 256, .nope = 96, .sequences = {{20, 2}}}));
  cases.push_back(mla({.heads = 5,
                       .sequences = {{700, 2, {.window = 30, .sinks = 4}},
                                     {255, 1},
                                     {600, 17, {.window = 300, .sinks = 258}},
                                     {90, 12, {.window = 100, .sinks = 1}}}}));
  cases.push_back(mla({.heads = 3, .rank = 33, .sequences = {{300, 200, {.window = 64, .sinks = 4}}}}));  // expanded if relaxed
}

namespace {

struct IndexOptions {
  std::int64_t heads = 4, dim = 16, rope = 8, topk = 8;
  Pairing pairing = Pairing::half_split;
  std::vector<Past> sequences = {{0, 3}};
};

OpCase sparse_index(const IndexOptions& o) {
  std::string name = fmt::format("index {}x{}+{} top {}{}", o.heads, o.dim, o.rope, o.topk,
                                 o.pairing == Pairing::interleaved ? " interleaved" : "");
  for (const Past& s : o.sequences) name += " " + s.name();
  CaseBuilder b(name, o.sequences);
  b.cache(1, {.latent = 7, .indexer = o.dim}, false);
  SparseIndex op{.layer = 1,
                 .index_n_heads = o.heads,
                 .index_head_dim = o.dim,
                 .index_topk = o.topk,
                 .qk_rope_head_dim = o.rope,
                 .pairing = o.pairing,
                 .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(o.heads * o.dim))),
                 .k_norm_weight = b.vector(o.dim, 1),
                 .k_norm_bias = b.vector(o.dim),
                 .k_norm_eps = 0.01f};
  op.angles = b.input(o.rope, 0.7);
  op.q = b.inout(b.input(o.heads * o.dim), false);
  op.k = b.inout(b.input(o.dim), false);
  op.weights = b.input(o.heads);
  op.selected = b.output(o.topk);
  return b.finish(op, static_cast<double>(2 * o.dim + 16));
}

}  // namespace

void add_sparse_cases(std::vector<OpCase>& cases) {
  cases.push_back(sparse_index({}));
  cases.push_back(sparse_index({.topk = 2, .sequences = {{0, 3}, {70, 1}}}));
  cases.push_back(sparse_index({.heads = 1, .dim = 3, .rope = 2, .topk = 1, .sequences = {{60, 9}}}));  // scores of 0 tie
  cases.push_back(
      sparse_index({.heads = 7, .dim = 21, .rope = 6, .topk = 40, .pairing = Pairing::interleaved, .sequences = {{39, 2}}}));
  cases.push_back(sparse_index({.heads = 64, .dim = 128, .rope = 64, .topk = 256, .sequences = {{700, 1}, {254, 4}}}));
  cases.push_back(sparse_index({.topk = 12, .sequences = {{500, 20}}}));
  cases.push_back(
      sparse_index({.topk = 12, .sequences = {{500, 3, {.window = 40, .sinks = 20}}, {500, 2, {.window = 8, .sinks = 4}}}}));
  cases.push_back(sparse_index({.topk = 12, .sequences = {{70, 30, {.window = 60, .sinks = 30}}, {95, 9, {.window = 90}}}}));
  cases.push_back(mla({.topk = 8}));
  cases.push_back(mla({.topk = 30, .sequences = {{500, 2, {.window = 40, .sinks = 20}}, {500, 9, {.window = 8, .sinks = 4}}}}));
  cases.push_back(mla({.heads = 5, .topk = 300, .sequences = {{700, 3, {.window = 280, .sinks = 64}}}}));
  cases.push_back(mla({.topk = 2, .sequences = {{0, 3}, {70, 1}}}));
  cases.push_back(mla({.heads = 1, .rank = 10, .nope = 5, .rope = 6, .v = 3, .topk = 5, .sequences = {{4, 2}}}));
  cases.push_back(mla({.heads = 5, .topk = 257, .sequences = {{254, 4}, {255, 1}, {256, 1}, {600, 2}}}));
  cases.push_back(mla({.heads = 50, .topk = 300, .sequences = {{700, 1}}}));
  cases.push_back(mla({.k_type = DType::bf16,
                       .v_type = DType::bf16,
                       .heads = 3,
                       .rank = 128,
                       .nope = 64,
                       .rope = 32,
                       .v = 48,
                       .topk = 20,
                       .sequences = {{0, 80}}}));
  cases.push_back(mla({.k_type = DType::q8_0,
                       .v_type = DType::q4_k,
                       .heads = 4,
                       .rank = 512,
                       .nope = 128,
                       .rope = 64,
                       .v = 128,
                       .topk = 270,
                       .sequences = {{300, 1}, {2, 3}}}));
}

}  // namespace conformance
