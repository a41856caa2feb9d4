#include <fmt/format.h>

#include <cmath>

#include "tests/backends/conformance/cases.h"

namespace conformance {
namespace {

std::string positions_name(const std::vector<Past>& sequences) {
  std::string name;
  for (const Past& s : sequences) name += " " + s.name();
  return name;
}

OpCase angles(std::int64_t dim, const std::vector<Past>& sequences) {
  CaseBuilder b(fmt::format("angles {}{}", dim, positions_name(sequences)), sequences);
  Angles op;
  op.scale = 1.25f;
  op.out = b.output(dim);
  for (std::int64_t i = 0; i < dim / 2; ++i)
    op.inv_freq.push_back(static_cast<float>(std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(dim))));
  return b.finish(op, 4);
}

struct Heads {
  std::int64_t heads = 1, kv_heads = 1, dim = 64;
};
std::string heads_name(const Heads& h) { return fmt::format("{}/{}x{}", h.heads, h.kv_heads, h.dim); }

struct RopeOptions {
  Heads heads;
  std::int64_t rope_dim = 64;
  Pairing pairing = Pairing::half_split;
  bool norms = false;
  std::int64_t window = 0;
  std::vector<Past> sequences = {{0, 3}};
};

OpCase rope_cache(const RopeOptions& o) {
  const auto [heads, kv_heads, dim] = o.heads;
  CaseBuilder b(fmt::format("rope {} of {} {}{}{}{}", heads_name(o.heads), o.rope_dim,
                            o.pairing == Pairing::half_split ? "half" : "interleaved", o.norms ? " norms" : "",
                            o.window > 0 ? " window" : "", positions_name(o.sequences)),
                o.sequences);
  b.cache(1, {.num_key_value_heads = kv_heads, .head_dim = dim, .window = o.window}, false);
  RopeCache op{
      .layer = 1, .num_attention_heads = heads, .num_key_value_heads = kv_heads, .head_dim = dim, .rope_dim = o.rope_dim};
  op.pairing = o.pairing;
  if (o.norms) {
    op.q_norm = b.norm(dim);
    op.k_norm = b.norm(dim);
  }
  if (o.rope_dim > 0) op.angles = b.input(o.rope_dim);
  op.q = b.inout(b.input(heads * dim));
  op.k = b.inout(b.input(kv_heads * dim), false);
  op.v = b.input(kv_heads * dim);
  return b.finish(op, static_cast<double>(o.norms ? dim + 8 : 8));
}

struct AttentionOptions {
  Heads heads;
  std::vector<Past> sequences = {{0, 1}};
  std::int64_t window = 0;
  float softcap = 0;
  double key_scale = 1;
};

OpCase attention(const AttentionOptions& o) {
  const auto [heads, kv_heads, dim] = o.heads;
  CaseBuilder b(fmt::format("attention {}{}{}{}{}", heads_name(o.heads), o.window > 0 ? fmt::format(" window {}", o.window) : "",
                            o.softcap > 0 ? " softcap" : "", o.key_scale != 1 ? " peaked" : "", positions_name(o.sequences)),
                o.sequences);
  b.cache(1, {.num_key_value_heads = kv_heads, .head_dim = dim, .window = o.window}, true, o.key_scale);
  Attention op{.layer = 1, .num_attention_heads = heads, .num_key_value_heads = kv_heads, .head_dim = dim};
  op.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(dim)));
  op.window = o.window;
  op.softcap = o.softcap;
  op.q = b.input(heads * dim);
  op.out = b.output(heads * dim);
  std::int64_t longest = 0;
  for (const Past& s : o.sequences) longest = std::max(longest, s.position + s.rows);
  return b.finish(op, static_cast<double>(dim + longest + 64) * o.key_scale);
}

}  // namespace

void add_attention_cases(std::vector<OpCase>& cases) {
  cases.push_back(angles(64, {{0, 3}, {1000, 2}}));
  cases.push_back(angles(2, {{0, 1}}));
  cases.push_back(angles(34, {{163000, 5}, {999990, 3}}));
  cases.push_back(angles(128, {{0, 70}}));

  cases.push_back(rope_cache({.heads = {4, 2, 64}, .sequences = {{0, 3}, {62, 4}, {128, 1}}}));
  cases.push_back(rope_cache({.heads = {4, 2, 64}, .pairing = Pairing::interleaved, .sequences = {{0, 3}, {62, 4}}}));
  cases.push_back(rope_cache({.heads = {3, 3, 80}, .rope_dim = 32, .sequences = {{10, 2}}}));
  cases.push_back(rope_cache({.heads = {3, 3, 80}, .rope_dim = 32, .pairing = Pairing::interleaved, .sequences = {{10, 2}}}));
  cases.push_back(rope_cache({.heads = {2, 1, 10}, .rope_dim = 6, .norms = true, .sequences = {{0, 5}}}));
  cases.push_back(rope_cache({.heads = {8, 2, 128}, .rope_dim = 128, .norms = true, .sequences = {{0, 130}}}));
  cases.push_back(rope_cache(
      {.heads = {4, 1, 256}, .rope_dim = 256, .norms = true, .window = 70, .sequences = {{300, 1}, {0, 5}, {190, 3}}}));
  cases.push_back(rope_cache({.heads = {2, 2, 16}, .rope_dim = 0, .sequences = {{5, 2}}}));

  cases.push_back(attention({.heads = {1, 1, 64}}));
  cases.push_back(attention({.heads = {9, 3, 64}, .sequences = {{0, 5}}}));
  cases.push_back(attention({.heads = {9, 3, 64}, .sequences = {{63, 1}, {64, 1}, {0, 1}, {200, 1}}}));
  cases.push_back(attention({.heads = {4, 1, 256}, .sequences = {{120, 10}}}));
  cases.push_back(attention({.heads = {2, 2, 128}, .sequences = {{254, 4}, {255, 1}, {256, 1}, {511, 2}}}));
  cases.push_back(attention({.heads = {14, 2, 64}, .sequences = {{0, 140}}}));
  cases.push_back(attention({.heads = {6, 2, 80}, .sequences = {{700, 2}, {3, 7}}}));
  cases.push_back(attention({.heads = {3, 1, 10}, .sequences = {{30, 3}}}));
  cases.push_back(attention({.heads = {5, 1, 33}, .sequences = {{300, 1}}}));
  cases.push_back(attention({.heads = {4, 4, 16}, .sequences = {{260, 20}, {0, 33}}}));
  cases.push_back(attention({.heads = {4, 2, 64}, .sequences = {{600, 3}}, .softcap = 50}));
  cases.push_back(attention({.heads = {4, 2, 64}, .sequences = {{100, 3}}, .softcap = 0.5f}));
  cases.push_back(attention({.heads = {4, 2, 64}, .sequences = {{1, 2}, {500, 4}, {127, 3}}, .window = 128}));
  cases.push_back(attention({.heads = {4, 1, 256}, .sequences = {{0, 20}, {90, 5}}, .window = 7}));
  cases.push_back(attention({.heads = {4, 2, 64}, .sequences = {{700, 2}, {530, 80}}, .window = 300}));
  cases.push_back(attention({.heads = {4, 2, 64}, .sequences = {{65, 3}}, .window = 1}));
  cases.push_back(attention({.heads = {4, 2, 64}, .sequences = {{10, 60}}, .window = 4096, .softcap = 20}));
  cases.push_back(attention({.heads = {4, 2, 64}, .sequences = {{800, 3}, {20, 5}}, .key_scale = 12}));

  // Windows with sinks: in one chunk with the sinks, chunks away, wider than what there is, and beside none.
  cases.push_back(attention({.heads = {4, 2, 64}, .sequences = {{90, 30, {.window = 100, .sinks = 4}}}}));
  cases.push_back(attention(
      {.heads = {9, 3, 64}, .sequences = {{700, 1, {.window = 64}}, {700, 1, {.window = 70, .sinks = 257}}, {700, 1}}}));
  cases.push_back(attention({.heads = {6, 2, 80}, .sequences = {{1000, 20, {.window = 1, .sinks = 1}}, {30, 40}}}));
  cases.push_back(attention({.heads = {2, 1, 128}, .sequences = {{500, 60, {.window = 230, .sinks = 290}}}, .softcap = 20}));
  cases.push_back(attention({.heads = {4, 1, 16}, .sequences = {{300, 5, {.window = 301, .sinks = 2}}}}));
  cases.push_back(attention({.heads = {4, 2, 64},
                             .sequences = {{500, 4, {.window = 40, .sinks = 9}},
                                           {100, 40, {.window = 40, .sinks = 9}},
                                           {300, 3, {.window = 400, .sinks = 9}}},
                             .window = 128}));
}

}  // namespace conformance
