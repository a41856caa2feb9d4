#include <fmt/format.h>

#include "tests/backends/conformance/cases.h"

namespace conformance {
namespace {

OpCase embed(DType type, std::int64_t vocab, std::int64_t width, bool block_scales = false) {
  CaseBuilder b(fmt::format("embed {}{} {}x{}", type_name(type), block_scales ? " block scales" : "", vocab, width),
                {{0, 3}, {5, 4}});
  std::vector<std::int32_t> tokens = {static_cast<std::int32_t>(vocab - 1), 0, 1};
  while (tokens.size() < 7) tokens.push_back(static_cast<std::int32_t>(b.random().below(vocab)));
  b.tokens(tokens);
  const MatrixId weight = b.matrix(type, 1, vocab, width, block_scales);
  return b.finish(Embed{.weight = weight, .scale = 1.7f, .out = b.output(width)}, 0);
}

// Parts of different widths, with norms of their own and without.
OpCase join(std::vector<std::pair<std::int64_t, bool>> widths, std::int64_t n) {
  std::string name = fmt::format("join {} rows", n);
  for (const auto& [width, normed] : widths) name += fmt::format(" {}{}", width, normed ? " norm" : "");
  CaseBuilder b(name, {{3, n}});
  Join op;
  std::int64_t all = 0;
  for (const auto& [width, normed] : widths) {
    op.parts.push_back({b.input(width), normed ? b.norm(width) : Norm{}});
    all += width;
  }
  op.out = b.output(all);
  return b.finish(op, 20);
}

struct FfnOptions {
  std::int64_t n = 1, hidden = 256, intermediate = 512;
  Activation activation = Activation::silu;
  bool bias = false, post_norm = false;
};

OpCase ffn(DType type, DType down_type, FfnOptions o) {
  o.hidden = fit(type, o.hidden);
  o.intermediate = fit(down_type, o.intermediate);
  CaseBuilder b(
      fmt::format("ffn {} {} {}x{}x{} {}{}{}", type_name(type), type_name(down_type), o.n, o.hidden, o.intermediate,
                  o.activation == Activation::silu ? "silu" : "gelu", o.bias ? " bias" : "", o.post_norm ? " post norm" : ""),
      {{0, o.n}});
  GatedFfn op{.x = b.inout(b.input(o.hidden)), .norm = b.norm(o.hidden)};
  op.gate = b.matrix(type, 1, o.intermediate, o.hidden);
  op.up = b.matrix(type, 1, o.intermediate, o.hidden);
  op.down = b.matrix(down_type, 1, o.hidden, o.intermediate);
  op.activation = o.activation;
  if (o.bias) {
    op.gate_bias = b.vector(o.intermediate);
    op.up_bias = b.vector(o.intermediate);
    op.down_bias = b.vector(o.hidden);
  }
  if (o.post_norm) op.post_norm = b.norm(o.hidden);
  op.residual = op.out = op.x;  // as in a model
  b.residual(op.x);
  return b.finish(op, static_cast<double>(2 * o.hidden + o.intermediate + 64));
}

struct HeadOptions {
  std::vector<Past> sequences = {{0, 1}};
  std::vector<std::int32_t> logit_rows = {0};
  std::int64_t hidden = 256, vocab = 300;
  float softcap = 0;
  bool bias = false;
};

OpCase head(DType type, const HeadOptions& o) {
  const std::int64_t hidden = fit(type, o.hidden);
  CaseBuilder b(fmt::format("head {} {} of rows x{}->{}{}{}", type_name(type), o.logit_rows.size(), hidden, o.vocab,
                            o.softcap > 0 ? " softcap" : "", o.bias ? " bias" : ""),
                o.sequences);
  b.logit_rows(o.logit_rows);
  Head op{.x = b.input(hidden, 2), .norm = b.norm(hidden)};
  op.weight = b.matrix(type, 1, o.vocab, hidden);
  if (o.bias) op.bias = b.vector(o.vocab);
  op.softcap = o.softcap;
  op.out = b.output(o.vocab, true);
  return b.finish(op, static_cast<double>(2 * hidden + 32));
}

}  // namespace

void add_dense_cases(std::vector<OpCase>& cases) {
  for (const DType type : weight_types()) {
    cases.push_back(embed(type, 50, fit(type, 96)));
    cases.push_back(ffn(type, type, {.n = 3}));
    cases.push_back(head(type, {.sequences = {{0, 3}, {9, 2}}, .logit_rows = {2, 4}}));
  }
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3}) cases.push_back(embed(type, 17, 35));
  cases.push_back(embed(DType::f8_e4m3, 150, 200, true));
  cases.push_back(join({{35, true}}, 3));
  cases.push_back(join({{64, true}, {64, true}}, 9));
  cases.push_back(join({{7, false}, {33, true}, {16, false}}, 1));
  cases.push_back(ffn(DType::f32, DType::f32, {.n = 1, .hidden = 35, .intermediate = 71, .activation = Activation::gelu_tanh}));
  cases.push_back(ffn(DType::f32, DType::f32, {.n = 5, .hidden = 64, .intermediate = 96, .bias = true, .post_norm = true}));
  cases.push_back(ffn(DType::bf16, DType::f16, {.n = 2, .hidden = 130, .intermediate = 67, .bias = true}));
  cases.push_back(ffn(DType::q4_0, DType::q8_0,
                      {.n = 4, .hidden = 160, .intermediate = 416, .activation = Activation::gelu_tanh, .post_norm = true}));
  cases.push_back(ffn(DType::q4_k, DType::q6_k, {.n = 1, .hidden = 256, .intermediate = 768, .bias = true}));
  cases.push_back(ffn(DType::q5_0, DType::f32, {.n = 19, .hidden = 96, .intermediate = 80, .bias = true}));
  cases.push_back(ffn(DType::q4_1, DType::q4_k, {.n = 1, .hidden = 576, .intermediate = 1536}));
  cases.push_back(head(DType::f32, {.hidden = 31, .vocab = 33, .softcap = 30, .bias = true}));
  cases.push_back(head(DType::q8_0, {.sequences = {{0, 9}}, .logit_rows = {8}, .hidden = 96, .vocab = 131, .softcap = 2}));
  cases.push_back(head(
      DType::q6_k, {.sequences = {{4, 1}, {7, 1}, {3, 1}}, .logit_rows = {0, 1, 2}, .hidden = 512, .vocab = 1000, .bias = true}));
  cases.push_back(
      head(DType::f16, {.sequences = {{0, 40}}, .logit_rows = {0, 1, 2, 3, 17, 18, 33, 39}, .hidden = 70, .vocab = 65}));
  cases.push_back(head(DType::q4_0, {.sequences = {{0, 5}}, .logit_rows = {}, .hidden = 64, .vocab = 40}));
}

}  // namespace conformance
