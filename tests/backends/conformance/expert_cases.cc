#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "tests/backends/conformance/cases.h"

namespace conformance {
namespace {

struct GateOptions {
  DType type = DType::f32;
  std::int64_t n = 3, hidden = 96, experts = 16, top_k = 4, groups = 1, kept = 1;
  Scoring scoring = Scoring::softmax;
  GroupScore group_score = GroupScore::none;
  bool norm = true, bias = false, norm_topk_prob = false;
};

OpCase gate(const GateOptions& o) {
  const std::int64_t hidden = fit(o.type, o.hidden);
  CaseBuilder b(fmt::format("gate {} {}x{} {} of {} {}{}{}{}{}", type_name(o.type), o.n, hidden, o.top_k, o.experts,
                            o.scoring == Scoring::softmax ? "softmax" : "sigmoid",
                            o.group_score == GroupScore::max        ? " group max"
                            : o.group_score == GroupScore::top2_sum ? " group top2"
                                                                    : "",
                            o.norm ? "" : " no norm", o.bias ? " bias" : "", o.norm_topk_prob ? " normalised" : ""),
                {{0, o.n}});
  Gate op{.x = b.input(hidden)};
  if (o.norm) op.norm = b.norm(hidden);
  op.weight = b.matrix(o.type, 1, o.experts, hidden);
  if (o.bias) op.bias = b.vector(o.experts);
  op.n_routed_experts = o.experts;
  op.num_experts_per_tok = o.top_k;
  op.n_group = o.groups;
  op.topk_group = o.kept;
  op.scoring = o.scoring;
  op.group_score = o.group_score;
  op.norm_topk_prob = o.norm_topk_prob;
  op.routed_scaling_factor = 2.5f;
  op.ids = b.output(o.top_k);
  op.weights = b.output(o.top_k);
  return b.finish(op, static_cast<double>(2 * hidden + 64));
}

// Experts with equal weights tie exactly, on every backend: the lowest index wins.
OpCase tied_gate(Scoring scoring, GroupScore group_score, const std::string& name) {
  CaseBuilder b(fmt::format("gate ties {}", name), {{0, 5}});
  Gate op{.x = b.input(40)};
  std::vector<float> weight(12 * 40);
  for (std::size_t e = 0; e < 12; ++e)
    for (std::size_t k = 0; k < 40; ++k)
      weight[e * 40 + k] = e % 3 == 0 ? static_cast<float>(b.random().normal()) : weight[(e - 1) * 40 + k];
  op.weight = b.matrix_of(12, 40, weight);
  op.n_routed_experts = 12;
  op.num_experts_per_tok = 5;
  op.n_group = 4;
  op.topk_group = 2;
  op.scoring = scoring;
  op.group_score = group_score;
  op.ids = b.output(5);
  op.weights = b.output(5);
  return b.finish(op, 200);
}

struct ExpertOptions {
  DType type = DType::f32, down_type = DType::f32;
  std::int64_t n = 3, hidden = 64, intermediate = 48, experts = 8, top_k = 2, shared = 0;
  Activation activation = Activation::silu;
  bool residual = true;
};

OpCase experts(const ExpertOptions& o) {
  const std::int64_t hidden = fit(o.type, o.hidden), width = fit(o.down_type, o.intermediate),
                     shared = fit(o.down_type, o.shared);
  CaseBuilder b(fmt::format("experts {} {} {}x{}x{} {} of {}{}{}{}", type_name(o.type), type_name(o.down_type), o.n, hidden,
                            width, o.top_k, o.experts, o.shared > 0 ? fmt::format(" shared {}", shared) : "",
                            o.activation == Activation::silu ? "" : " gelu", o.residual ? "" : " no residual"),
                {{0, o.n}});
  std::vector<float> ids, weights;
  for (std::int64_t r = 0; r < o.n; ++r) {
    std::vector<std::int32_t> chosen(static_cast<std::size_t>(o.experts));
    for (std::size_t e = 0; e < chosen.size(); ++e) chosen[e] = static_cast<std::int32_t>(e);
    for (std::int64_t j = 0; j < o.top_k; ++j)
      std::swap(chosen[static_cast<std::size_t>(j)], chosen[static_cast<std::size_t>(j + b.random().below(o.experts - j))]);
    std::sort(chosen.begin(), chosen.begin() + o.top_k);
    for (std::int64_t j = 0; j < o.top_k; ++j) {
      ids.push_back(std::bit_cast<float>(chosen[static_cast<std::size_t>(j)]));
      weights.push_back(static_cast<float>(0.1 + b.random().uniform()));
    }
  }
  Experts op{.x = b.input(hidden), .norm = b.norm(hidden)};
  op.ids = b.input_of(o.top_k, ids);
  op.weights = b.input_of(o.top_k, weights);
  op.n_routed_experts = o.experts;
  op.num_experts_per_tok = o.top_k;
  op.gate = b.matrix(o.type, o.experts, width, hidden);
  op.up = b.matrix(o.type, o.experts, width, hidden);
  op.down = b.matrix(o.down_type, o.experts, hidden, width);
  if (o.shared > 0) {
    op.shared_gate = b.matrix(o.type, 1, shared, hidden);
    op.shared_up = b.matrix(o.type, 1, shared, hidden);
    op.shared_down = b.matrix(o.down_type, 1, hidden, shared);
  }
  op.activation = o.activation;
  if (o.residual) {
    op.residual = op.out = b.inout(op.x);
    b.residual(op.x);
  } else {
    op.out = b.output(hidden);
  }
  return b.finish(op, static_cast<double>(2 * hidden + std::max(width, shared) + 64 + o.top_k));
}

}  // namespace

void add_expert_cases(std::vector<OpCase>& cases) {
  cases.push_back(gate({}));
  for (const DType type : {DType::f16, DType::bf16, DType::q8_0}) cases.push_back(gate({.type = type, .hidden = 128}));
  cases.push_back(gate({.n = 1, .hidden = 33, .experts = 5, .top_k = 5, .norm = false}));
  cases.push_back(gate({.n = 1, .hidden = 64, .experts = 3, .top_k = 1, .norm_topk_prob = true}));
  cases.push_back(gate({.n = 20, .hidden = 70, .experts = 64, .top_k = 6}));
  cases.push_back(gate({.n = 5, .experts = 160, .top_k = 6, .groups = 8, .kept = 3, .group_score = GroupScore::max}));
  cases.push_back(gate({.n = 7,
                        .hidden = 256,
                        .experts = 256,
                        .top_k = 8,
                        .groups = 8,
                        .kept = 4,
                        .scoring = Scoring::sigmoid,
                        .group_score = GroupScore::top2_sum,
                        .bias = true,
                        .norm_topk_prob = true}));
  cases.push_back(gate({.n = 4,
                        .experts = 12,
                        .top_k = 2,
                        .groups = 4,
                        .kept = 2,
                        .scoring = Scoring::sigmoid,
                        .group_score = GroupScore::top2_sum,
                        .bias = true}));
  cases.push_back(gate({.n = 4,
                        .experts = 8,
                        .top_k = 3,
                        .groups = 8,
                        .kept = 4,
                        .scoring = Scoring::sigmoid,
                        .group_score = GroupScore::top2_sum}));
  cases.push_back(gate({.n = 3, .experts = 9, .top_k = 4, .scoring = Scoring::sigmoid, .norm_topk_prob = true}));
  cases.push_back(tied_gate(Scoring::softmax, GroupScore::none, "softmax"));
  cases.push_back(tied_gate(Scoring::sigmoid, GroupScore::top2_sum, "sigmoid group top2"));
  cases.push_back(tied_gate(Scoring::softmax, GroupScore::max, "softmax group max"));

  for (const DType type : weight_types()) cases.push_back(experts({.type = type, .down_type = type, .experts = 4, .shared = 32}));
  cases.push_back(experts({.n = 1, .hidden = 35, .intermediate = 19, .experts = 3, .top_k = 3, .residual = false}));
  cases.push_back(experts({.n = 20, .hidden = 40, .intermediate = 24, .experts = 16, .top_k = 4, .shared = 50}));
  cases.push_back(experts({.type = DType::q4_0,
                           .down_type = DType::q8_0,
                           .n = 33,
                           .hidden = 64,
                           .intermediate = 96,
                           .experts = 5,
                           .top_k = 2,
                           .residual = false}));
  cases.push_back(experts({.type = DType::q4_k,
                           .down_type = DType::q6_k,
                           .n = 1,
                           .hidden = 256,
                           .intermediate = 256,
                           .experts = 12,
                           .top_k = 6,
                           .shared = 512}));
  cases.push_back(experts(
      {.type = DType::q4_0, .down_type = DType::f16, .n = 2, .experts = 4, .top_k = 1, .activation = Activation::gelu_tanh}));
}

std::vector<OpCase> all_cases() {
  std::vector<OpCase> cases;
  add_linear_cases(cases);
  add_dense_cases(cases);
  add_attention_cases(cases);
  add_mla_cases(cases);
  add_sparse_cases(cases);
  add_expert_cases(cases);
  return cases;
}

}  // namespace conformance
