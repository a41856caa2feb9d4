// A Qwen3-MoE of three layers with eight experts in each, float32, made in memory: small enough to open a hundred times.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "dsv31/dsv31.h"
#include "tests/gguf_builder.h"
#include "tests/memory_files.h"

namespace dsv31::test {

// Gets a tensor's name and its floats, which it may change.
using EditTensor = std::function<void(const std::string&, std::vector<float>&)>;

inline constexpr std::int64_t kMadeHidden = 32, kMadeVocab = 40, kMadeExperts = 8, kMadeTopK = 2;

inline Model made_model(const Runtime& runtime, const EditTensor& edit = {}, const ModelOptions& options = {}) {
  GgufBuilder g;
  g.string("general.architecture", "qwen3moe");
  const auto key = [&](const char* name, std::uint32_t v) { g.u32(std::string("qwen3moe.") + name, v); };
  key("block_count", 3), key("context_length", 256), key("embedding_length", kMadeHidden), key("feed_forward_length", 48);
  key("attention.head_count", 2), key("attention.head_count_kv", 1), key("attention.key_length", 16);
  key("attention.value_length", 16), key("expert_count", kMadeExperts), key("expert_used_count", kMadeTopK);
  key("expert_feed_forward_length", 32);
  g.f32("qwen3moe.attention.layer_norm_rms_epsilon", 1e-6f).f32("qwen3moe.rope.freq_base", 10000.0f);
  std::uint64_t state = 88172645463325252u;
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    std::size_t n = 1;
    for (const std::int64_t d : shape) n *= static_cast<std::size_t>(d);
    std::vector<float> data(n);
    const float scale = shape.size() == 1 ? 0 : 1 / std::sqrt(static_cast<float>(shape.back()));
    for (float& x : data) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      x = (shape.size() == 1 ? 1.0f : 0.0f) + scale * (static_cast<float>(state >> 40) * 0x1p-23f - 1);
    }
    if (edit) edit(name, data);
    g.tensor(name, data,
             shape.size() == 1   ? Shape(shape[0])
             : shape.size() == 2 ? Shape(shape[0], shape[1])
                                 : Shape(shape[0], shape[1], shape[2]));
  };
  add("token_embd.weight", {kMadeVocab, kMadeHidden});
  add("output_norm.weight", {kMadeHidden});
  add("output.weight", {kMadeVocab, kMadeHidden});
  for (int i = 0; i < 3; ++i) {
    const std::string b = "blk." + std::to_string(i) + ".";
    add(b + "attn_norm.weight", {kMadeHidden}), add(b + "ffn_norm.weight", {kMadeHidden});
    add(b + "attn_q.weight", {32, kMadeHidden}), add(b + "attn_k.weight", {16, kMadeHidden}),
        add(b + "attn_v.weight", {16, kMadeHidden});
    add(b + "attn_q_norm.weight", {16}), add(b + "attn_k_norm.weight", {16});
    add(b + "attn_output.weight", {kMadeHidden, 32});
    add(b + "ffn_gate_inp.weight", {kMadeExperts, kMadeHidden});
    add(b + "ffn_gate_exps.weight", {kMadeExperts, 32, kMadeHidden}),
        add(b + "ffn_up_exps.weight", {kMadeExperts, 32, kMadeHidden});
    add(b + "ffn_down_exps.weight", {kMadeExperts, kMadeHidden, 32});
  }
  return Model::open(runtime, reader_of(g.build()), options);
}

}  // namespace dsv31::test
