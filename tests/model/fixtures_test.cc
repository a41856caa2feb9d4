// Every recorded model binds whole: its graph is valid, and each byte of its weights belongs to exactly one matrix or vector.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "lib/graph/graph.h"
#include "lib/model/spec.h"
#include "tests/catch.h"
#include "tests/model/made.h"

using namespace dsv31;
using namespace dsv31::model;

namespace {

std::map<std::string, int> count_ops(const Graph& g) {
  std::map<std::string, int> n;
  for (const Op& op : g.ops) ++n[op_name(op)];
  return n;
}

// Pieces, vectors and extra tensors tile the tensors' bytes: none twice, none left out.
void check_tiles(const io::Checkpoint& checkpoint, const ModelSpec& spec) {
  std::vector<std::tuple<std::size_t, std::uint64_t, std::uint64_t>> ranges;  // file, begin, end
  for (const MatrixSource& m : spec.matrices) {
    const std::int64_t row = format_bytes(m.stored, m.stored_cols);
    std::int64_t rows = 0;
    for (const Piece& p : m.pieces) {
      ranges.emplace_back(p.file, p.offset, p.offset + static_cast<std::uint64_t>(p.rows * row));
      rows += p.rows;
    }
    REQUIRE(rows == m.desc.count * (m.transpose ? m.desc.cols : m.desc.rows));
    REQUIRE(m.stored_cols == (m.transpose ? m.desc.rows : m.desc.cols));
  }
  for (const VectorSource& v : spec.vectors)
    ranges.emplace_back(v.file, v.offset, v.offset + static_cast<std::uint64_t>(format_bytes(v.type, v.width)));
  for (const std::string& name : spec.extra_tensors) {
    const io::TensorInfo& t = *checkpoint.find(name);
    ranges.emplace_back(t.file, t.offset, t.offset + t.bytes);
  }
  std::sort(ranges.begin(), ranges.end());
  std::uint64_t sum = 0, expected = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const auto& [file, begin, end] = ranges[i];
    sum += end - begin;
    if (i == 0) continue;
    const auto& [before, unused, limit] = ranges[i - 1];
    REQUIRE((before != file || limit <= begin));
  }
  for (const io::TensorInfo& t : checkpoint.tensors) expected += t.bytes;
  CHECK(sum == expected);
}

ModelSpec checked(const io::Checkpoint& checkpoint) {
  ModelSpec spec = build_model(checkpoint);
  graph::validate(spec.graph);
  REQUIRE(spec.matrices.size() == spec.graph.matrices.size());
  REQUIRE(spec.vectors.size() == spec.graph.vector_widths.size());
  for (std::size_t i = 0; i < spec.matrices.size(); ++i) {
    const MatrixDesc &a = spec.matrices[i].desc, &b = spec.graph.matrices[i];
    REQUIRE((a.name == b.name && a.type == b.type && a.count == b.count && a.rows == b.rows && a.cols == b.cols));
  }
  for (std::size_t i = 0; i < spec.vectors.size(); ++i) REQUIRE(spec.vectors[i].width == spec.graph.vector_widths[i]);
  check_tiles(checkpoint, spec);
  return spec;
}

ModelSpec folder(const std::string& name) { return checked(io::open_checkpoint(made::data("random/" + name))); }

// The head of a real file, and zeros in place of its tensors.
ModelSpec header(const std::string& name, std::uint64_t data_bytes) {
  const std::string head = made::file_text(made::data("headers/" + name + ".gguf"));
  const io::Checkpoint checkpoint = io::open_checkpoint(std::make_shared<made::HeadReader>(head, head.size() + data_bytes));
  return checked(checkpoint);
}

using Ops = std::map<std::string, int>;

}  // namespace

TEST_CASE("llama binds whole, its head tied to the embedding") {
  const ModelSpec spec = folder("llama");
  CHECK(count_ops(spec.graph) ==
        Ops{{"embed", 1}, {"angles", 1}, {"linear", 6}, {"rope_cache", 3}, {"attention", 3}, {"gated_ffn", 3}, {"head", 1}});
  CHECK(std::get<Head>(spec.graph.ops.back()).weight == std::get<Embed>(spec.graph.ops[1]).weight);
  CHECK(spec.extra_tensors.empty());
  CHECK(spec.graph.context_length == 1024);
}

TEST_CASE("llama with llama3 scaling binds whole, with a head of its own") {
  const ModelSpec spec = folder("llama3_rope");
  CHECK(std::get<Head>(spec.graph.ops.back()).weight != std::get<Embed>(spec.graph.ops[1]).weight);
  CHECK(spec.extra_tensors.empty());
}

TEST_CASE("qwen2 binds whole, with biases on q, k and v only") {
  const ModelSpec spec = folder("qwen2");
  const Linear& qkv = std::get<Linear>(spec.graph.ops[2]);
  REQUIRE(qkv.parts.size() == 3);
  for (const Linear::Part& part : qkv.parts) CHECK(part.bias != kNone);
  CHECK(std::get<Linear>(spec.graph.ops[5]).parts[0].bias == kNone);
  CHECK(spec.extra_tensors.empty());
}

TEST_CASE("qwen3 binds whole: heads wider than hidden_size, q and k normalised") {
  const ModelSpec spec = folder("qwen3");
  const RopeCache& rope = std::get<RopeCache>(spec.graph.ops[3]);
  CHECK(rope.head_dim == 24);
  CHECK(rope.q_norm.weight != kNone);
  CHECK(rope.k_norm.weight != kNone);
  CHECK(spec.graph.values[static_cast<std::size_t>(rope.q)].width == 96);
  CHECK(spec.extra_tensors.empty());
}

TEST_CASE("qwen3_moe binds whole: an expert is a piece") {
  const ModelSpec spec = folder("qwen3_moe");
  CHECK(count_ops(spec.graph) == Ops{{"embed", 1},
                                     {"angles", 1},
                                     {"linear", 6},
                                     {"rope_cache", 3},
                                     {"attention", 3},
                                     {"gate", 3},
                                     {"experts", 3},
                                     {"head", 1}});
  const Experts& experts = std::get<Experts>(spec.graph.ops[7]);
  CHECK(spec.matrices[static_cast<std::size_t>(experts.gate)].pieces.size() == 8);
  CHECK(experts.shared_gate == kNone);
  CHECK(std::get<Gate>(spec.graph.ops[6]).norm_topk_prob);
  CHECK(spec.extra_tensors.empty());
}

TEST_CASE("gemma3 binds whole: two ropes, windows, post norms") {
  const ModelSpec spec = folder("gemma3");
  CHECK(count_ops(spec.graph)["angles"] == 2);
  std::vector<std::int64_t> windows;
  for (const Op& op : spec.graph.ops)
    if (const auto* a = std::get_if<Attention>(&op)) windows.push_back(a->window);
  CHECK(windows == std::vector<std::int64_t>{8, 8, 8, 8, 8, 0, 8});
  CHECK(spec.extra_tensors.empty());
}

TEST_CASE("DeepSeek models bind whole") {
  for (const char* name : {"deepseek_v2", "deepseek_v2_lite", "deepseek_v3", "deepseek_v3_bf16"}) {
    INFO(name);
    const ModelSpec spec = folder(name);
    const bool lite = std::string_view(name) == "deepseek_v2_lite";
    CHECK(count_ops(spec.graph) == Ops{{"embed", 1},
                                       {"angles", 1},
                                       {"linear", lite ? 6 : 9},
                                       {"mla_attention", 3},
                                       {"gated_ffn", 1},
                                       {"gate", 2},
                                       {"experts", 2},
                                       {"head", 1}});
    CHECK(spec.extra_tensors.empty());
    for (const CacheDesc& cache : spec.graph.caches) CHECK(cache.latent == 40);
  }
}

TEST_CASE("the GGUF of DeepSeek-V3 binds whole to the same graph") {
  const ModelSpec spec = checked(io::open_checkpoint(made::data("random/deepseek_v3/deepseek_v3.gguf")));
  const ModelSpec hf = folder("deepseek_v3");
  REQUIRE(spec.graph.ops.size() == hf.graph.ops.size());
  for (std::size_t i = 0; i < spec.graph.ops.size(); ++i) {
    CHECK(op_name(spec.graph.ops[i]) == std::string(op_name(hf.graph.ops[i])));
    CHECK(graph::uses(spec.graph.ops[i]).matrices == graph::uses(hf.graph.ops[i]).matrices);
  }
  CHECK(spec.extra_tensors.empty());
  CHECK(std::get<Angles>(spec.graph.ops[0]).inv_freq == std::get<Angles>(hf.graph.ops[0]).inv_freq);
}

TEST_CASE("tensors of the MTP layer are extra") {
  const ModelSpec spec = folder("deepseek_v3_mtp");
  CHECK(spec.config.num_nextn_predict_layers == 1);
  CHECK(count_ops(spec.graph)["mla_attention"] == 3);
  CHECK_FALSE(spec.extra_tensors.empty());
  for (const std::string& name : spec.extra_tensors) CHECK(name.starts_with("model.layers.3."));
}

TEST_CASE("the heads of real GGUF files bind whole") {
  const ModelSpec smollm = header("smollm2-135m-q4_1", 96'576'768);
  CHECK(smollm.config.num_hidden_layers == 30);
  CHECK(smollm.config.vocab_size == 49152);
  CHECK(smollm.extra_tensors.empty());
  CHECK(std::get<RopeCache>(smollm.graph.ops[3]).pairing == Pairing::interleaved);

  const ModelSpec qwen = header("qwen2.5-coder-0.5b-q4_k_m", 485'452'288);
  CHECK(qwen.config.vocab_size == 151'936);  // of the embedding: the file has no vocab_size
  CHECK(qwen.extra_tensors.empty());
  CHECK(std::get<Linear>(qwen.graph.ops[2]).parts[0].bias != kNone);

  const ModelSpec gemma = header("gemma3-270m-q4_k_m", 246'587'904);
  CHECK(gemma.extra_tensors.empty());
  CHECK(gemma.config.window(0) == 512);
  CHECK(gemma.config.window(5) == 0);
  CHECK(std::get<Embed>(gemma.graph.ops[2]).scale == std::sqrt(640.0f));
  CHECK(std::get<Attention>(gemma.graph.ops[5]).scale == 0.0625f);
}
