// Checkpoints made in memory: GGUF files written value by value, and Hugging Face ones from a config and a list of tensors.
#pragma once

#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dsv31/error.h"
#include "dsv31/quant.h"
#include "lib/io/checkpoint.h"
#include "tests/catch.h"

namespace made {
using namespace dsv31;

// The given bytes, then zeros up to the given size.
class HeadReader : public Reader {
 public:
  HeadReader(std::string head, std::uint64_t size) : head_(std::move(head)), size_(size) {}
  std::uint64_t size() const override { return size_; }
  void read_at(std::uint64_t offset, void* dst, std::size_t n) const override {
    REQUIRE(offset <= size_);
    REQUIRE(n <= size_ - offset);
    std::memset(dst, 0, n);
    if (offset < head_.size()) std::memcpy(dst, head_.data() + offset, std::min<std::size_t>(n, head_.size() - offset));
  }

 private:
  std::string head_;
  std::uint64_t size_;
};

inline std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in.good());
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::string data(const std::string& name) { return std::string(DSV31_TEST_DATA) + "/" + name; }

class Gguf {
 public:
  Gguf& u32(const std::string& key, std::uint32_t v) { return kv(key, 4, raw(v)); }
  Gguf& i32(const std::string& key, std::int32_t v) { return kv(key, 5, raw(v)); }
  Gguf& f32(const std::string& key, float v) { return kv(key, 6, raw(v)); }
  Gguf& boolean(const std::string& key, bool v) { return kv(key, 7, std::string(1, v ? '\1' : '\0')); }
  Gguf& string(const std::string& key, const std::string& v) { return kv(key, 8, text(v)); }
  Gguf& u32s(const std::string& key, const std::vector<std::uint32_t>& v) {
    std::string body = raw(std::uint32_t{4}) + raw(static_cast<std::uint64_t>(v.size()));
    for (std::uint32_t x : v) body += raw(x);
    return kv(key, 9, body);
  }
  Gguf& without(const std::string& key) {
    std::erase_if(kv_, [&](const auto& entry) { return entry.first == key; });
    return *this;
  }
  // Shape most significant first. Data are zeros unless floats are given.
  Gguf& tensor(const std::string& name, std::vector<std::int64_t> shape, DType type = DType::f32,
               std::vector<float> floats = {}) {
    tensors_.push_back({name, std::move(shape), type, std::move(floats)});
    return *this;
  }
  Gguf& drop(const std::string& name) {
    std::erase_if(tensors_, [&](const Tensor& t) { return t.name == name; });
    return *this;
  }

  io::Checkpoint open() const {
    std::string head = "GGUF" + raw(std::uint32_t{3}) + raw(static_cast<std::uint64_t>(tensors_.size())) +
                       raw(static_cast<std::uint64_t>(kv_.size()));
    for (const auto& [key, body] : kv_) head += text(key) + body;
    std::uint64_t offset = 0;
    std::string payload;
    for (const Tensor& t : tensors_) {
      head += text(t.name) + raw(static_cast<std::uint32_t>(t.shape.size()));
      std::int64_t elements = 1;
      for (std::size_t i = t.shape.size(); i-- > 0;) head += raw(t.shape[i]), elements *= t.shape[i];
      head += raw(static_cast<std::uint32_t>(format(t.type).ggml_id)) + raw(offset);
      if (!t.floats.empty()) {
        payload.resize(offset, '\0');
        payload.append(reinterpret_cast<const char*>(t.floats.data()), t.floats.size() * sizeof(float));
      }
      offset += (static_cast<std::uint64_t>(format_bytes(t.type, elements)) + 31) / 32 * 32;
    }
    head.resize((head.size() + 31) / 32 * 32, '\0');
    const std::uint64_t size = head.size() + offset;
    return io::open_checkpoint(std::make_shared<HeadReader>(head + payload, size));
  }

 private:
  struct Tensor {
    std::string name;
    std::vector<std::int64_t> shape;
    DType type;
    std::vector<float> floats;
  };
  template <class T>
  static std::string raw(T v) {
    std::string s(sizeof v, '\0');
    std::memcpy(s.data(), &v, sizeof v);
    return s;
  }
  static std::string text(const std::string& s) { return raw(static_cast<std::uint64_t>(s.size())) + s; }
  Gguf& kv(const std::string& key, std::uint32_t type, const std::string& body) {
    without(key);
    kv_.emplace_back(key, raw(type) + body);
    return *this;
  }
  std::vector<std::pair<std::string, std::string>> kv_;
  std::vector<Tensor> tensors_;
};

// A Hugging Face checkpoint whose data are zeros, or what `bytes` says.
class Hf {
 public:
  explicit Hf(const std::string& config) {
    checkpoint_.kind = io::Checkpoint::Kind::safetensors, checkpoint_.config = io::parse_json(config, "config.json");
  }
  Hf& tensor(const std::string& name, Shape shape, DType type = DType::f32, const std::string& bytes = {}) {
    std::int64_t elements = 1;
    for (int i = 0; i < shape.rank; ++i) elements *= shape[i];
    const auto size = static_cast<std::uint64_t>(format_bytes(type, elements));
    if (!bytes.empty()) {
      REQUIRE(bytes.size() == size);
      data_.resize(offset_, '\0');
      data_ += bytes;
    }
    checkpoint_.add({.name = name, .type = type, .shape = shape, .file = 0, .offset = offset_, .bytes = size}, "made");
    offset_ += size;
    return *this;
  }
  io::Json& config() { return checkpoint_.config; }
  const io::Checkpoint& open() {
    checkpoint_.files = {std::make_shared<HeadReader>(data_, std::max<std::uint64_t>(offset_, data_.size()))};
    return checkpoint_;
  }

 private:
  io::Checkpoint checkpoint_;
  std::string data_;
  std::uint64_t offset_ = 0;
};

// Sets or removes (null) a member, by a path of keys separated by dots.
inline void set(io::Json& json, std::string_view path, io::Json value) {
  const std::size_t dot = path.find('.');
  const std::string key(path.substr(0, dot));
  io::Json::Object& object = json.as_object();
  for (auto it = object.begin(); it != object.end(); ++it)
    if (it->first == key) {
      if (dot != std::string_view::npos)
        set(it->second, path.substr(dot + 1), std::move(value));
      else
        it->second = std::move(value);
      return;
    }
  REQUIRE(dot == std::string_view::npos);
  object.emplace_back(key, std::move(value));
}
inline void remove(io::Json& json, std::string_view key) {
  std::erase_if(json.as_object(), [&](const auto& member) { return member.first == key; });
}

template <class Fn>
std::string failure(const Fn& fn, Code expected) {
  try {
    fn();
  } catch (const Error& e) {
    CHECK(to_string(e.code()) == to_string(expected));
    return e.what();
  }
  return "accepted";
}

inline bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// A deepseek2 model of three layers (the first dense), four heads, eight experts in four groups; everything float32.
inline Gguf deepseek2() {
  Gguf g;
  g.string("general.architecture", "deepseek2")
      .u32("deepseek2.block_count", 3)
      .u32("deepseek2.context_length", 1024)
      .u32("deepseek2.embedding_length", 64)
      .u32("deepseek2.feed_forward_length", 96)
      .u32("deepseek2.vocab_size", 320)
      .u32("deepseek2.leading_dense_block_count", 1)
      .u32("deepseek2.attention.head_count", 4)
      .u32("deepseek2.attention.head_count_kv", 1)
      .f32("deepseek2.attention.layer_norm_rms_epsilon", 1e-5f)
      .u32("deepseek2.attention.q_lora_rank", 48)
      .u32("deepseek2.attention.kv_lora_rank", 32)
      .u32("deepseek2.attention.key_length", 40)
      .u32("deepseek2.attention.value_length", 32)
      .u32("deepseek2.attention.key_length_mla", 24)
      .u32("deepseek2.attention.value_length_mla", 24)
      .u32("deepseek2.rope.dimension_count", 8)
      .f32("deepseek2.rope.freq_base", 10000)
      .string("deepseek2.rope.scaling.type", "yarn")
      .f32("deepseek2.rope.scaling.factor", 40)
      .u32("deepseek2.rope.scaling.original_context_length", 4096)
      .f32("deepseek2.rope.scaling.yarn_log_multiplier", 0.1f)
      .u32("deepseek2.expert_count", 8)
      .u32("deepseek2.expert_used_count", 3)
      .u32("deepseek2.expert_shared_count", 1)
      .u32("deepseek2.expert_feed_forward_length", 32)
      .f32("deepseek2.expert_weights_scale", 2.5f)
      .boolean("deepseek2.expert_weights_norm", true)
      .u32("deepseek2.expert_gating_func", 2)
      .u32("deepseek2.expert_group_count", 4)
      .u32("deepseek2.expert_group_used_count", 2);
  g.tensor("token_embd.weight", {320, 64}).tensor("output_norm.weight", {64}).tensor("output.weight", {320, 64});
  for (int i = 0; i < 3; ++i) {
    const std::string b = "blk." + std::to_string(i) + ".";
    g.tensor(b + "attn_norm.weight", {64})
        .tensor(b + "ffn_norm.weight", {64})
        .tensor(b + "attn_q_a.weight", {48, 64})
        .tensor(b + "attn_q_a_norm.weight", {48})
        .tensor(b + "attn_q_b.weight", {96, 48})
        .tensor(b + "attn_kv_a_mqa.weight", {40, 64})
        .tensor(b + "attn_kv_a_norm.weight", {32})
        .tensor(b + "attn_k_b.weight", {4, 32, 16})
        .tensor(b + "attn_v_b.weight", {4, 24, 32})
        .tensor(b + "attn_output.weight", {64, 96});
    if (i == 0) {
      g.tensor(b + "ffn_gate.weight", {96, 64}).tensor(b + "ffn_up.weight", {96, 64}).tensor(b + "ffn_down.weight", {64, 96});
      continue;
    }
    g.tensor(b + "ffn_gate_inp.weight", {8, 64})
        .tensor(b + "exp_probs_b.bias", {8})
        .tensor(b + "ffn_gate_exps.weight", {8, 32, 64})
        .tensor(b + "ffn_up_exps.weight", {8, 32, 64})
        .tensor(b + "ffn_down_exps.weight", {8, 64, 32})
        .tensor(b + "ffn_gate_shexp.weight", {32, 64})
        .tensor(b + "ffn_up_shexp.weight", {32, 64})
        .tensor(b + "ffn_down_shexp.weight", {64, 32});
  }
  return g;
}

// A llama of one layer, four heads over two.
inline Gguf llama() {
  Gguf g;
  g.string("general.architecture", "llama")
      .u32("llama.block_count", 1)
      .u32("llama.context_length", 1024)
      .u32("llama.embedding_length", 64)
      .u32("llama.feed_forward_length", 96)
      .u32("llama.attention.head_count", 4)
      .u32("llama.attention.head_count_kv", 2)
      .f32("llama.attention.layer_norm_rms_epsilon", 1e-5f)
      .u32("llama.rope.dimension_count", 16)
      .f32("llama.rope.freq_base", 10000);
  g.tensor("token_embd.weight", {320, 64})
      .tensor("output_norm.weight", {64})
      .tensor("blk.0.attn_norm.weight", {64})
      .tensor("blk.0.ffn_norm.weight", {64})
      .tensor("blk.0.attn_q.weight", {64, 64})
      .tensor("blk.0.attn_k.weight", {32, 64})
      .tensor("blk.0.attn_v.weight", {32, 64})
      .tensor("blk.0.attn_output.weight", {64, 64})
      .tensor("blk.0.ffn_gate.weight", {96, 64})
      .tensor("blk.0.ffn_up.weight", {96, 64})
      .tensor("blk.0.ffn_down.weight", {64, 96});
  return g;
}

}  // namespace made
