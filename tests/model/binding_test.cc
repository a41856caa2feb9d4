// What is read is what was bound: rows of experts, heads and fused projections, block scales, norms.
#include "lib/model/binding.h"

#include <cstring>

#include "lib/model/spec.h"
#include "tests/catch.h"
#include "tests/model/made.h"

using namespace dsv31;
using namespace dsv31::model;

namespace {

template <class T>
std::string bytes(const std::vector<T>& v) {
  return {reinterpret_cast<const char*>(v.data()), v.size() * sizeof(T)};
}

const MatrixSource& matrix(const ModelSpec& spec, MatrixId id) { return spec.matrices[static_cast<std::size_t>(id)]; }

std::string rows(const io::Checkpoint& c, const MatrixSource& m, std::int64_t which, std::int64_t begin, std::int64_t end) {
  std::string out(static_cast<std::size_t>((end - begin) * format_bytes(m.desc.type, m.desc.cols)), '\0');
  read_rows(c, m, which, begin, end, reinterpret_cast<std::byte*>(out.data()));
  return out;
}
std::string whole(const io::Checkpoint& c, const MatrixSource& m) {
  std::string out;
  for (std::int64_t i = 0; i < m.desc.count; ++i) out += rows(c, m, i, 0, m.desc.rows);
  return out;
}
std::vector<float> floats(const std::string& s) {
  std::vector<float> v(s.size() / sizeof(float));
  std::memcpy(v.data(), s.data(), s.size());
  return v;
}

template <class OpType>
const OpType& op(const ModelSpec& spec, int nth = 0) {
  for (const Op& o : spec.graph.ops)
    if (const auto* found = std::get_if<OpType>(&o); found != nullptr && nth-- == 0) return *found;
  FAIL("no such op");
  throw 0;
}

const std::string kTiny =
    R"({"model_type":"deepseek_v3","vocab_size":8,"hidden_size":4,"intermediate_size":4,"num_hidden_layers":1,
  "num_attention_heads":2,"q_lora_rank":null,"kv_lora_rank":3,"qk_nope_head_dim":2,"qk_rope_head_dim":2,"v_head_dim":1,
  "n_routed_experts":null,"max_position_embeddings":64})";

// One dense DeepSeek layer: two heads, latent 3, nope 2, rope 2, v 1. kv_b is (2 * (2 + 1), 3).
made::Hf tiny(DType type, const std::string& kv_b) {
  made::Hf hf(kTiny);
  const std::string l = "model.layers.0.";
  hf.tensor("model.embed_tokens.weight", Shape(8, 4))
      .tensor("model.norm.weight", Shape(4))
      .tensor("lm_head.weight", Shape(8, 4))
      .tensor(l + "input_layernorm.weight", Shape(4))
      .tensor(l + "post_attention_layernorm.weight", Shape(4))
      .tensor(l + "self_attn.q_proj.weight", Shape(8, 4))
      .tensor(l + "self_attn.kv_a_proj_with_mqa.weight", Shape(5, 4))
      .tensor(l + "self_attn.kv_a_layernorm.weight", Shape(3))
      .tensor(l + "self_attn.o_proj.weight", Shape(4, 2))
      .tensor(l + "mlp.gate_proj.weight", Shape(4, 4))
      .tensor(l + "mlp.up_proj.weight", Shape(4, 4))
      .tensor(l + "mlp.down_proj.weight", Shape(4, 4))
      .tensor(l + "self_attn.kv_b_proj.weight", Shape(6, 3), type, kv_b);
  return hf;
}

}  // namespace

TEST_CASE("kv_b is cut by heads, k_nope before v, and k_b is transposed") {
  std::vector<float> w(18);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i);
  made::Hf hf = tiny(DType::f32, bytes(w));
  const io::Checkpoint& c = hf.open();
  const ModelSpec spec = build_model(c);
  const MlaAttention& mla = op<MlaAttention>(spec);
  const MatrixSource &k_b = matrix(spec, mla.k_b), &v_b = matrix(spec, mla.v_b);
  CHECK(k_b.desc.count == 2);
  CHECK(k_b.desc.rows == 3);
  CHECK(k_b.desc.cols == 2);
  CHECK(floats(whole(c, k_b)) == std::vector<float>{0, 3, 1, 4, 2, 5, 9, 12, 10, 13, 11, 14});
  CHECK(floats(whole(c, v_b)) == std::vector<float>{6, 7, 8, 15, 16, 17});
  CHECK(floats(rows(c, k_b, 1, 1, 2)) == std::vector<float>{10, 13});
}

TEST_CASE("a bfloat16 kv_b is transposed as it is") {
  std::vector<std::uint16_t> w(18);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<std::uint16_t>(100 + i);
  made::Hf hf = tiny(DType::bf16, bytes(w));
  const io::Checkpoint& c = hf.open();
  const ModelSpec spec = build_model(c);
  const MatrixSource& k_b = matrix(spec, op<MlaAttention>(spec).k_b);
  CHECK(k_b.desc.type == DType::bf16);
  CHECK(whole(c, k_b) == bytes(std::vector<std::uint16_t>{100, 103, 101, 104, 102, 105, 109, 112, 110, 113, 111, 114}));
}

TEST_CASE("an FP8 kv_b whose heads do not meet its scale blocks becomes float32, weight times scale") {
  std::vector<std::uint8_t> w(18, 0x38);  // 1.0
  w[9] = 0x3F, w[15] = 0xB8;              // 1.875 at row 3, -1 at row 5
  made::Hf hf = tiny(DType::f8_e4m3, bytes(w));
  hf.tensor("model.layers.0.self_attn.kv_b_proj.weight_scale_inv", Shape(1, 1), DType::f32, bytes(std::vector<float>{0.375f}));
  const io::Checkpoint& c = hf.open();
  const ModelSpec spec = build_model(c);
  const MlaAttention& mla = op<MlaAttention>(spec);
  const MatrixSource& k_b = matrix(spec, mla.k_b);
  CHECK(k_b.desc.type == DType::f32);
  CHECK(k_b.scale_count() == 0);
  CHECK(floats(rows(c, k_b, 1, 0, 1)) == std::vector<float>{0.703125f, 0.375f});
  CHECK(floats(rows(c, matrix(spec, mla.v_b), 1, 0, 1)) == std::vector<float>{-0.375f, 0.375f, 0.375f});
}

TEST_CASE("scales in E8M0 are powers of two") {
  made::Hf hf = tiny(DType::f8_e4m3, bytes(std::vector<std::uint8_t>(18, 0x38)));
  hf.tensor("model.layers.0.self_attn.kv_b_proj.weight_scale_inv", Shape(1, 1), DType::f8_e8m0,
            bytes(std::vector<std::uint8_t>{125}));
  const io::Checkpoint& c = hf.open();
  const ModelSpec spec = build_model(c);
  CHECK(floats(rows(c, matrix(spec, op<MlaAttention>(spec).k_b), 0, 0, 1)) == std::vector<float>{0.25f, 0.25f});
}

TEST_CASE("S06 an FP8 weight without its scale, or with a grid of another shape or type, is mismatch by name") {
  const std::string name = "model.layers.0.self_attn.kv_b_proj.weight_scale_inv";
  const std::string w = bytes(std::vector<std::uint8_t>(18, 0x38));
  const auto refusal = [&](made::Hf& hf) { return made::failure([&] { build_model(hf.open()); }, Code::mismatch); };
  made::Hf none = tiny(DType::f8_e4m3, w), wide = tiny(DType::f8_e4m3, w), integers = tiny(DType::f8_e4m3, w);
  CHECK(made::contains(refusal(none), "\"" + name + "\": got no such tensor, expected (1, 1)"));
  wide.tensor(name, Shape(1, 2));
  CHECK(made::contains(refusal(wide), "\"" + name + "\": got (1, 2), expected (1, 1)"));
  integers.tensor(name, Shape(1, 1), DType::i32);
  CHECK(made::contains(refusal(integers), "\"" + name + "\": got I32, expected F32 or F8_E8M0"));
}

TEST_CASE("G16 a tensor that is missing, has another shape or is no weight is mismatch by name, got and expected") {
  made::Gguf g = made::llama();
  const auto refusal = [](const made::Gguf& file) { return made::failure([&] { build_model(file.open()); }, Code::mismatch); };
  CHECK(refusal(made::llama().drop("blk.0.ffn_up.weight")) ==
        "[model] \"blk.0.ffn_up.weight\": got no such tensor, expected (96, 64)");
  CHECK(refusal(made::llama().drop("blk.0.attn_q.weight").tensor("blk.0.attn_q.weight", {64, 32})) ==
        "[model] \"blk.0.attn_q.weight\": got (64, 32), expected (64, 64)");
  CHECK(refusal(made::llama().drop("blk.0.attn_norm.weight").tensor("blk.0.attn_norm.weight", {1, 64})) ==
        "[model] \"blk.0.attn_norm.weight\": got (1, 64), expected (64)");
  CHECK(refusal(made::llama().drop("blk.0.ffn_up.weight").tensor("blk.0.ffn_up.weight", {96, 64}, DType::i32)) ==
        "[model] \"blk.0.ffn_up.weight\": got I32, expected a weight format");
  CHECK(refusal(made::llama().drop("output_norm.weight").tensor("output_norm.weight", {64}, DType::q8_0)) ==
        "[model] \"output_norm.weight\": got Q8_0, expected F32, F16 or BF16");
  CHECK(refusal(made::llama().u32("llama.vocab_size", 321)) ==
        "[model] \"token_embd.weight\": got (320, 64), expected (321, 64)");
  CHECK(refusal(made::llama().drop("token_embd.weight")).find("token_embd.weight") != std::string::npos);
  CHECK(refusal(made::deepseek2().drop("blk.2.ffn_up_exps.weight").tensor("blk.2.ffn_up_exps.weight", {7, 32, 64})) ==
        "[model] \"blk.2.ffn_up_exps.weight\": got (7, 32, 64), expected (8, 32, 64)");
}

TEST_CASE("columns that do not fill the blocks of their format are format by name") {
  io::Checkpoint c;
  c.kind = io::Checkpoint::Kind::safetensors;
  made::Hf hf(kTiny);
  hf.tensor("model.embed_tokens.weight", Shape(8, 4), DType::q4_0);
  CHECK(made::failure([&] { build_model(hf.open()); }, Code::format) ==
        "[model] \"model.embed_tokens.weight\": got 4 columns, expected a multiple of 32 for Q4_0");
}

TEST_CASE("extra tensors are listed, not refused") {
  made::Gguf g = made::llama();
  g.tensor("blk.0.unheard_of.weight", {3}).tensor("v.patch_embd.weight", {2, 2});
  const ModelSpec spec = build_model(g.open());
  CHECK(spec.extra_tensors == std::vector<std::string>{"blk.0.unheard_of.weight", "v.patch_embd.weight"});
}

TEST_CASE("experts, heads and transposed k_b read the same from both containers") {
  const io::Checkpoint a = io::open_checkpoint(made::data("random/deepseek_v3"));
  const io::Checkpoint b = io::open_checkpoint(made::data("random/deepseek_v3/deepseek_v3.gguf"));
  const ModelSpec hf = build_model(a), gguf = build_model(b);
  REQUIRE(hf.matrices.size() == gguf.matrices.size());
  for (std::size_t i = 0; i < hf.matrices.size(); ++i) {
    INFO(hf.matrices[i].desc.name);
    REQUIRE(whole(a, hf.matrices[i]) == whole(b, gguf.matrices[i]));
  }
  REQUIRE(hf.vectors.size() == gguf.vectors.size());
  for (std::size_t i = 0; i < hf.vectors.size(); ++i) {
    std::vector<float> x(static_cast<std::size_t>(hf.vectors[i].width)), y(x.size());
    read_vector(a, hf.vectors[i], x.data());
    read_vector(b, gguf.vectors[i], y.data());
    REQUIRE(x == y);
  }
}

TEST_CASE("any range of rows is the same rows") {
  const io::Checkpoint c = io::open_checkpoint(made::data("random/deepseek_v3"));
  const ModelSpec spec = build_model(c);
  for (const MatrixSource& m : spec.matrices)
    for (std::int64_t step : {1, 5, 16}) {
      const std::int64_t last = m.desc.count - 1;
      std::string joined;
      for (std::int64_t r = 0; r < m.desc.rows; r += step) joined += rows(c, m, last, r, std::min(r + step, m.desc.rows));
      REQUIRE(joined == rows(c, m, last, 0, m.desc.rows));
    }
}

TEST_CASE("an attn_qkv is cut into q, k and v, its bias too") {
  made::Gguf g = made::llama();
  std::vector<float> w(128 * 64), bias(128);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i / 64);  // the row's index
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i);
  g.drop("blk.0.attn_q.weight").drop("blk.0.attn_k.weight").drop("blk.0.attn_v.weight");
  g.tensor("blk.0.attn_qkv.weight", {128, 64}, DType::f32, w).tensor("blk.0.attn_qkv.bias", {128}, DType::f32, bias);
  const io::Checkpoint c = g.open();
  const ModelSpec spec = build_model(c);
  const Linear& qkv = op<Linear>(spec);
  const std::int64_t first[] = {0, 64, 96};
  for (std::size_t p = 0; p < 3; ++p) {
    CHECK(floats(rows(c, matrix(spec, qkv.parts[p].weight), 0, 1, 2)) ==
          std::vector<float>(64, static_cast<float>(first[p] + 1)));
    const VectorSource& v = spec.vectors[static_cast<std::size_t>(qkv.parts[p].bias)];
    std::vector<float> b(static_cast<std::size_t>(v.width));
    read_vector(c, v, b.data());
    CHECK(b[1] == static_cast<float>(first[p] + 1));
  }
  CHECK(spec.extra_tensors.empty());
}

TEST_CASE("a stack of gate_up experts is cut into gate and up") {
  made::Gguf g = made::deepseek2();
  std::vector<float> w(8 * 64 * 64);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i / 64);
  g.drop("blk.1.ffn_gate_exps.weight").drop("blk.1.ffn_up_exps.weight");
  g.tensor("blk.1.ffn_gate_up_exps.weight", {8, 64, 64}, DType::f32, w);
  const io::Checkpoint c = g.open();
  const ModelSpec spec = build_model(c);
  const Experts& e = op<Experts>(spec);
  CHECK(floats(rows(c, matrix(spec, e.gate), 3, 5, 6))[0] == 3 * 64 + 5);
  CHECK(floats(rows(c, matrix(spec, e.up), 3, 5, 6))[0] == 3 * 64 + 32 + 5);
  CHECK(floats(rows(c, matrix(spec, e.gate), 7, 31, 32))[63] == 7 * 64 + 31);
}

TEST_CASE("a legacy attn_kv_b in blocks: v_b keeps its format, k_b becomes float32") {
  made::Gguf g = made::deepseek2();
  g.without("deepseek2.attention.key_length_mla")
      .without("deepseek2.attention.value_length_mla")
      .u32("deepseek2.attention.key_length", 24)
      .u32("deepseek2.attention.value_length", 24);
  for (int i = 0; i < 3; ++i) {
    const std::string b = "blk." + std::to_string(i) + ".";
    g.drop(b + "attn_k_b.weight").drop(b + "attn_v_b.weight").tensor(b + "attn_kv_b.weight", {160, 32}, DType::q8_0);
  }
  const io::Checkpoint c = g.open();
  const ModelSpec spec = build_model(c);
  const MlaAttention& mla = op<MlaAttention>(spec);
  CHECK(matrix(spec, mla.k_b).desc.type == DType::f32);
  CHECK(matrix(spec, mla.k_b).stored == DType::q8_0);
  CHECK(matrix(spec, mla.v_b).desc.type == DType::q8_0);
  CHECK(whole(c, matrix(spec, mla.k_b)) == std::string(4 * 32 * 16 * 4, '\0'));
}

TEST_CASE("a router in blocks is decoded to float32") {
  made::Gguf g = made::deepseek2();
  g.drop("blk.1.ffn_gate_inp.weight").tensor("blk.1.ffn_gate_inp.weight", {8, 64}, DType::q8_0);
  const ModelSpec spec = build_model(g.open());
  CHECK(matrix(spec, op<Gate>(spec, 0).weight).desc.type == DType::f32);
}

TEST_CASE("norms may be stored in half precision") {
  made::Gguf g = made::llama();
  g.drop("output_norm.weight").tensor("output_norm.weight", {64}, DType::bf16);
  const io::Checkpoint c = g.open();
  const ModelSpec spec = build_model(c);
  std::vector<float> w(64, 1);
  read_vector(c, spec.vectors[static_cast<std::size_t>(op<Head>(spec).norm.weight)], w.data());
  CHECK(w == std::vector<float>(64, 0));
}
