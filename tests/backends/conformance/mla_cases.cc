#include <fmt/format.h>

#include <cmath>

#include "tests/backends/conformance/cases.h"

namespace conformance {
namespace {

struct MlaOptions {
  DType k_type = DType::f32, v_type = DType::f32;
  std::int64_t heads = 2, rank = 64, nope = 32, rope = 16, v = 24;
  Pairing pairing = Pairing::interleaved;
  std::vector<Past> sequences = {{0, 3}};
};

OpCase mla(const MlaOptions& o) {
  std::string name = fmt::format("mla {} {} {}x{}+{}{}", type_name(o.k_type), type_name(o.v_type), o.heads, o.rank, o.rope,
                                 o.pairing == Pairing::half_split ? " half" : "");
  for (const Past& s : o.sequences) name += fmt::format(" {}+{}", s.position, s.rows);
  CaseBuilder b(name, o.sequences);
  b.cache(1, {.latent = o.rank + o.rope}, false);
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
}

}  // namespace conformance
