// Mistakes that give fluent nonsense instead of an error. One case a trap.
#include <cmath>

#include "lib/model/rope.h"
#include "lib/model/spec.h"
#include "tests/catch.h"
#include "tests/model/made.h"

using namespace dsv31;
using namespace dsv31::model;

namespace {

template <class OpType>
std::vector<OpType> ops(const ModelSpec& spec) {
  std::vector<OpType> found;
  for (const Op& op : spec.graph.ops)
    if (const auto* o = std::get_if<OpType>(&op)) found.push_back(*o);
  return found;
}

ModelSpec folder(const std::string& name) { return build_model(io::open_checkpoint(made::data("random/" + name))); }

// A fixture with one key of its config.json changed.
ModelSpec changed(const std::string& name, std::string_view key, io::Json value) {
  io::Checkpoint c = io::open_checkpoint(made::data("random/" + name));
  made::set(c.config, key, std::move(value));
  return build_model(c);
}

std::vector<float> read(const io::Checkpoint& c, const ModelSpec& spec, VectorId id) {
  const VectorSource& v = spec.vectors[static_cast<std::size_t>(id)];
  std::vector<float> out(static_cast<std::size_t>(v.width));
  read_vector(c, v, out.data());
  return out;
}

}  // namespace

TEST_CASE("latent attention pairs neighbours in both containers, unless rope_interleave says otherwise") {
  for (const MlaAttention& a : ops<MlaAttention>(folder("deepseek_v3"))) CHECK(a.pairing == Pairing::interleaved);
  for (const MlaAttention& a : ops<MlaAttention>(build_model(made::deepseek2().open()))) CHECK(a.pairing == Pairing::interleaved);
  for (const MlaAttention& a : ops<MlaAttention>(changed("deepseek_v3", "rope_interleave", false)))
    CHECK(a.pairing == Pairing::half_split);
}

TEST_CASE("llama pairs halves in Hugging Face checkpoints and neighbours in GGUF") {
  for (const RopeCache& r : ops<RopeCache>(folder("llama"))) CHECK(r.pairing == Pairing::half_split);
  for (const RopeCache& r : ops<RopeCache>(build_model(made::llama().open()))) CHECK(r.pairing == Pairing::interleaved);
}

TEST_CASE("qwen and gemma pair halves in both containers") {
  for (const char* name : {"qwen2", "qwen3", "qwen3_moe", "gemma3"})
    for (const RopeCache& r : ops<RopeCache>(folder(name))) CHECK(r.pairing == Pairing::half_split);
  const std::string head = made::file_text(made::data("headers/qwen2.5-coder-0.5b-q4_k_m.gguf"));
  const ModelSpec spec = build_model(io::open_checkpoint(std::make_shared<made::HeadReader>(head, head.size() + 485'452'288)));
  for (const RopeCache& r : ops<RopeCache>(spec)) CHECK(r.pairing == Pairing::half_split);
}

TEST_CASE("the scale of latent attention is that of q's head, not of the cached 576") {
  made::Gguf g = made::deepseek2();
  for (const MlaAttention& a : ops<MlaAttention>(build_model(g.open())))
    CHECK(std::fabs(a.scale - 1.87385421 / std::sqrt(24.0)) < 1e-7);
  g.string("deepseek2.rope.scaling.type", "none");
  for (const MlaAttention& a : ops<MlaAttention>(build_model(g.open())))
    CHECK(a.scale == static_cast<float>(1 / std::sqrt(24.0)));
}

TEST_CASE("yarn_log_multiplier carries a factor of 0.1") {
  made::Gguf g = made::deepseek2();
  g.f32("deepseek2.rope.scaling.yarn_log_multiplier", 0.0707f);
  for (const MlaAttention& a : ops<MlaAttention>(build_model(g.open())))
    CHECK(std::fabs(a.scale - 1.58962617 / std::sqrt(24.0)) < 1e-7);
}

TEST_CASE("a missing yarn_log_multiplier is taken from the model's shape, with a warning") {
  const ModelSpec spec = build_model(made::deepseek2().without("deepseek2.rope.scaling.yarn_log_multiplier").open());
  CHECK(std::fabs(ops<MlaAttention>(spec)[0].scale - 1.87385421 / std::sqrt(24.0)) < 1e-7);
  REQUIRE(spec.warnings.size() == 1);
  CHECK(made::contains(spec.warnings[0], "yarn_log_multiplier"));
}

TEST_CASE("YaRN frequencies hold for short contexts too, and cos and sin are not scaled in DeepSeek") {
  const ModelSpec spec = build_model(made::deepseek2().open());
  const std::vector<Angles> angles = ops<Angles>(spec);
  REQUIRE(angles.size() == 1);
  CHECK(angles[0].scale == 1);
  CHECK(angles[0].inv_freq ==
        inv_freq({.rope_type = RopeType::yarn, .rope_theta = 10000, .factor = 40, .original_max_position_embeddings = 4096}, 8));
  CHECK(angles[0].inv_freq != inv_freq({.rope_theta = 10000}, 8));
}

TEST_CASE("the norms inside latent attention have eps 1e-6 whatever rms_norm_eps is") {
  const ModelSpec spec = build_model(made::deepseek2().open());
  for (const MlaAttention& a : ops<MlaAttention>(spec)) CHECK(a.kv_norm.eps == 1e-6f);
  const std::vector<Linear> linears = ops<Linear>(spec);
  CHECK(linears[0].norm.eps == 1e-5f);
  CHECK(linears[1].norm.eps == 1e-6f);  // before q_b
}

TEST_CASE("head_count_kv = 1 says nothing about the weights of latent attention") {
  const ModelSpec spec = build_model(made::deepseek2().open());
  for (const MlaAttention& a : ops<MlaAttention>(spec)) {
    CHECK(a.num_attention_heads == 4);
    CHECK(spec.graph.matrices[static_cast<std::size_t>(a.k_b)].count == 4);
  }
}

TEST_CASE("first_k_dense_replace says which layers are dense") {
  CHECK(ops<GatedFfn>(build_model(made::deepseek2().open())).size() == 1);
  CHECK(ops<Gate>(build_model(made::deepseek2().open())).size() == 2);
  // two dense layers wanted, but layer 1 has experts
  CHECK(made::failure([] { changed("deepseek_v3", "first_k_dense_replace", 2); }, Code::mismatch) ==
        "[model] \"model.layers.1.mlp.gate_proj.weight\": got no such tensor, expected (96, 64)");
}

TEST_CASE("the correction bias and the groups of V3 choose; V2 has neither bias nor normalisation") {
  for (const Gate& g : ops<Gate>(folder("deepseek_v3"))) {
    CHECK(g.bias != kNone);
    CHECK(g.scoring == Scoring::sigmoid);
    CHECK(g.group_score == GroupScore::top2_sum);
    CHECK(g.norm_topk_prob);
    CHECK(g.routed_scaling_factor == 2.5f);
  }
  for (const Gate& g : ops<Gate>(folder("deepseek_v2"))) {
    CHECK(g.bias == kNone);
    CHECK(g.scoring == Scoring::softmax);
    CHECK(g.group_score == GroupScore::max);
    CHECK_FALSE(g.norm_topk_prob);
    CHECK(g.routed_scaling_factor == 16);
  }
  for (const Gate& g : ops<Gate>(folder("deepseek_v2_lite"))) CHECK(g.group_score == GroupScore::none);
}

TEST_CASE("the same groups from GGUF: softmax by the best expert, sigmoid by the best two") {
  CHECK(ops<Gate>(build_model(made::deepseek2().open()))[0].group_score == GroupScore::top2_sum);
  CHECK(ops<Gate>(build_model(made::deepseek2().u32("deepseek2.expert_gating_func", 1).open()))[0].group_score ==
        GroupScore::max);
  made::Gguf old = made::deepseek2();  // files of before the group keys
  old.without("deepseek2.expert_group_count")
      .without("deepseek2.expert_group_used_count")
      .without("deepseek2.expert_gating_func");
  CHECK(ops<Gate>(build_model(old.open()))[0].group_score == GroupScore::none);
  CHECK(ops<Gate>(build_model(old.open()))[0].scoring == Scoring::softmax);
}

TEST_CASE("gate and experts read the same normalised input") {
  const ModelSpec spec = folder("deepseek_v3");
  const std::vector<Gate> gates = ops<Gate>(spec);
  const std::vector<Experts> experts = ops<Experts>(spec);
  for (std::size_t i = 0; i < gates.size(); ++i) {
    CHECK(gates[i].norm.weight == experts[i].norm.weight);
    CHECK(gates[i].x == experts[i].x);
    CHECK(experts[i].residual == experts[i].x);
    CHECK(experts[i].shared_gate != kNone);
  }
}

TEST_CASE("gemma's norms are 1 + weight in Hugging Face checkpoints and weight in GGUF") {
  const io::Checkpoint c = io::open_checkpoint(made::data("random/gemma3"));
  const ModelSpec spec = build_model(c);
  const io::TensorInfo& t = *c.find("model.layers.0.self_attn.q_norm.weight");
  std::vector<float> stored(16);
  c.files[t.file]->read_at(t.offset, stored.data(), 64);
  const std::vector<float> q_norm = read(c, spec, ops<RopeCache>(spec)[0].q_norm.weight);
  for (std::size_t i = 0; i < stored.size(); ++i) CHECK(q_norm[i] == 1 + stored[i]);
  for (const VectorSource& v : spec.vectors) CHECK(v.plus == 1);

  const std::string head = made::file_text(made::data("headers/gemma3-270m-q4_k_m.gguf"));
  const ModelSpec gguf = build_model(io::open_checkpoint(std::make_shared<made::HeadReader>(head, head.size() + 246'587'904)));
  for (const VectorSource& v : gguf.vectors) CHECK(v.plus == 0);
}

TEST_CASE("no other norm has the 1 added") {
  for (const char* name : {"llama", "qwen3", "deepseek_v3"})
    for (const VectorSource& v : folder(name).vectors) CHECK(v.plus == 0);
}

TEST_CASE("gemma's embedding factor is rounded to the type of the stored weight") {
  CHECK(ops<Embed>(folder("gemma3"))[0].scale == 8);  // sqrt(64)
  const auto scale = [](DType type) {
    made::Hf hf(R"({"model_type":"gemma3_text","vocab_size":4,"hidden_size":1152,"num_hidden_layers":1,"intermediate_size":8,
                    "num_attention_heads":1,"num_key_value_heads":1,"head_dim":4})");
    const std::string l = "model.layers.0.";
    hf.tensor("model.embed_tokens.weight", Shape(4, 1152), type).tensor("model.norm.weight", Shape(1152));
    for (const char* norm :
         {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"})
      hf.tensor(l + norm + ".weight", Shape(1152));
    hf.tensor(l + "self_attn.q_norm.weight", Shape(4)).tensor(l + "self_attn.k_norm.weight", Shape(4));
    for (const char* p : {"q", "k", "v"}) hf.tensor(l + "self_attn." + p + "_proj.weight", Shape(4, 1152), type);
    hf.tensor(l + "self_attn.o_proj.weight", Shape(1152, 4), type)
        .tensor(l + "mlp.gate_proj.weight", Shape(8, 1152), type)
        .tensor(l + "mlp.up_proj.weight", Shape(8, 1152), type)
        .tensor(l + "mlp.down_proj.weight", Shape(1152, 8), type);
    return ops<Embed>(build_model(hf.open()))[0].scale;
  };
  CHECK(scale(DType::bf16) == 34.0f);
  CHECK(scale(DType::f32) == std::sqrt(1152.0f));
}

TEST_CASE("gemma's sliding layers turn by their own rope, and attention scales by query_pre_attn_scalar") {
  const ModelSpec spec = folder("gemma3");
  const std::vector<Angles> angles = ops<Angles>(spec);
  REQUIRE(angles.size() == 2);
  CHECK(angles[0].inv_freq == inv_freq({.rope_theta = 1'000'000}, 16));
  CHECK(angles[1].inv_freq == inv_freq({.rope_theta = 10'000}, 16));
  const std::vector<RopeCache> ropes = ops<RopeCache>(spec);
  CHECK(ropes[4].angles == angles[1].out);
  CHECK(ropes[5].angles == angles[0].out);
  for (const Attention& a : ops<Attention>(spec)) CHECK(a.scale == static_cast<float>(1 / std::sqrt(24.0)));
}

TEST_CASE("llama3's frequencies come from config.json or, as divisors, from rope_freqs.weight") {
  const std::vector<float> stretched = ops<Angles>(folder("llama3_rope"))[0].inv_freq;
  CHECK(stretched == inv_freq({.rope_type = RopeType::llama3,
                               .rope_theta = 10000,
                               .factor = 8,
                               .original_max_position_embeddings = 32,
                               .low_freq_factor = 1,
                               .high_freq_factor = 4},
                              16));
  made::Gguf g = made::llama();
  g.tensor("rope_freqs.weight", {8}, DType::f32, {1, 1, 2, 4, 8, 8, 8, 8});
  const ModelSpec spec = build_model(g.open());
  const std::vector<float> plain = inv_freq({.rope_theta = 10000}, 16), divided = ops<Angles>(spec)[0].inv_freq;
  CHECK(divided[1] == plain[1]);
  CHECK(divided[2] == plain[2] / 2);
  CHECK(divided[7] == plain[7] / 8);
  CHECK(spec.extra_tensors.empty());
  CHECK(made::contains(made::failure([] { build_model(made::llama().tensor("rope_freqs.weight", {8}).open()); }, Code::format),
                       "rope_freqs.weight"));  // zeros: nothing is divided by them
}

TEST_CASE("biases are bound where the file has them (GGUF) or the config wants them") {
  made::Gguf g = made::llama();
  g.tensor("blk.0.attn_q.bias", {64}).tensor("blk.0.attn_output.bias", {64}).tensor("blk.0.ffn_down.bias", {64});
  const ModelSpec spec = build_model(g.open());
  const std::vector<Linear> linears = ops<Linear>(spec);
  CHECK(linears[0].parts[0].bias != kNone);
  CHECK(linears[0].parts[1].bias == kNone);
  CHECK(linears[1].parts[0].bias != kNone);
  CHECK(ops<GatedFfn>(spec)[0].down_bias != kNone);
  CHECK(spec.extra_tensors.empty());
  CHECK(made::failure([] { changed("llama", "attention_bias", true); }, Code::mismatch) ==
        "[model] \"model.layers.0.self_attn.q_proj.bias\": got no such tensor, expected (64)");
}

TEST_CASE("a sliding window of qwen2 begins at max_window_layers") {
  io::Checkpoint c = io::open_checkpoint(made::data("random/qwen2"));
  made::remove(c.config, "layer_types");
  made::set(c.config, "use_sliding_window", true);
  made::set(c.config, "sliding_window", 16);
  made::set(c.config, "max_window_layers", 2);
  const std::vector<Attention> a = ops<Attention>(build_model(c));
  CHECK(a[1].window == 0);
  CHECK(a[2].window == 16);
}
