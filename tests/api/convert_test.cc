// Folders made by convert(): what is in them, and that the model in them computes what its weights say.
#include "dsv31/convert.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "dsv31/quant.h"
#include "tests/api/fixtures.h"
#include "tests/catch.h"
#include "tests/expect_error.h"
#include "tests/safetensors_builder.h"
#include "tests/scratch_folder.h"

using namespace dsv31;
using namespace dsv31::test;
namespace fs = std::filesystem;

namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream out;
  out << file.rdbuf();
  return out.str();
}

std::string bytes_of(const io::Checkpoint& c, const io::TensorInfo& t) {
  std::string out(static_cast<std::size_t>(t.bytes), '\0');
  c.files[t.file]->read_at(t.offset, out.data(), out.size());
  return out;
}

std::vector<float> floats_of(const io::Checkpoint& c, const io::TensorInfo& t) {
  const std::string bytes = bytes_of(c, t);
  const FormatInfo& f = format(t.type);
  std::vector<float> out(bytes.size() / static_cast<std::size_t>(f.bytes));
  f.decode(reinterpret_cast<const std::byte*>(bytes.data()), static_cast<std::int64_t>(out.size()), out.data());
  return out;
}

std::vector<std::int64_t> dims(const Shape& s) { return {s.dim.begin(), s.dim.begin() + s.rank}; }

// The same model with every F8_E4M3 matrix multiplied out in float32, written without convert().
void write_multiplied_out(const std::string& from, const std::string& to) {
  const io::Checkpoint c = io::open_checkpoint(from);
  SafetensorsBuilder out;
  for (const io::TensorInfo& t : c.tensors) {
    if (t.name.ends_with("_scale_inv")) continue;
    std::vector<float> w = floats_of(c, t);
    if (t.type == DType::f8_e4m3) {
      const io::TensorInfo& s = *c.find(t.name + "_scale_inv");
      const std::vector<float> scales = floats_of(c, s);
      for (std::int64_t i = 0; i < t.shape[0]; ++i)
        for (std::int64_t j = 0; j < t.shape[1]; ++j)
          w[static_cast<std::size_t>(i * t.shape[1] + j)] *= scales[static_cast<std::size_t>(i / 128 * s.shape[1] + j / 128)];
    }
    out.tensor(t.name, w, dims(t.shape));
  }
  fs::create_directory(to);
  std::ofstream(to + "/model.safetensors", std::ios::binary) << out.build();
  fs::copy_file(from + "/config.json", to + "/config.json");
}

// Names of the tensors of a type.
std::set<std::string> named(const io::Checkpoint& c, DType type) {
  std::set<std::string> out;
  for (const io::TensorInfo& t : c.tensors)
    if (t.type == type) out.insert(t.name);
  return out;
}

}  // namespace

TEST_CASE("convert to FP8: the tensors that DeepSeek ships in FP8 and no others, in the layout of its checkpoints") {
  for (const char* name : {"deepseek_v3_bf16", "deepseek_v3_mtp", "deepseek_v32"}) {
    INFO(name);
    const ScratchFolder scratch("convert");
    const std::string source = random_model(name), made = scratch.path() + "/fp8";
    std::uint64_t last = 0, total = 0;
    const ConvertReport report = convert(source, made, {.progress = [&](Stage stage, std::uint64_t done, std::uint64_t all) {
                                           if (stage != Stage::read_weights) return true;
                                           CHECK(done >= last);
                                           last = done, total = all;
                                           return true;
                                         }});
    CHECK(last == total);
    CHECK(report.source_bytes == total);
    CHECK(report.nmse > 1e-5);
    CHECK(report.nmse < 1e-3);  // 3 bits of mantissa: relative steps of 1/8 to 1/16
    const io::Checkpoint from = io::open_checkpoint(source), to = io::open_checkpoint(made);
    CHECK(static_cast<std::size_t>(report.tensors) == from.tensors.size());
    std::uint64_t bytes = 0;
    for (const io::TensorInfo& t : to.tensors) bytes += t.bytes;
    CHECK(report.written_bytes == bytes);
    std::int64_t converted = 0;
    for (const io::TensorInfo& t : from.tensors) {
      INFO(t.name);
      const io::TensorInfo* got = to.find(t.name);
      REQUIRE(got != nullptr);
      CHECK(got->shape == t.shape);
      const bool kept = t.name.find("norm") != std::string::npos || t.name.find("embed_tokens") != std::string::npos ||
                        t.name.find("head") != std::string::npos || t.name.find("mlp.gate.") != std::string::npos ||
                        t.name.find("eh_proj") != std::string::npos || t.name.find("weights_proj") != std::string::npos;
      CHECK((got->type == DType::f8_e4m3) == !kept);
      if (kept) {
        CHECK(got->type == t.type);
        CHECK(bytes_of(to, *got) == bytes_of(from, t));
      } else {
        ++converted;
        const io::TensorInfo* scale = to.find(t.name + "_scale_inv");
        REQUIRE(scale != nullptr);
        CHECK(scale->type == DType::f32);
        CHECK(scale->shape == Shape((t.shape[0] + 127) / 128, (t.shape[1] + 127) / 128));
      }
    }
    CHECK(report.converted == converted);
    CHECK(to.tensors.size() == from.tensors.size() + static_cast<std::size_t>(converted));
    const io::Json* q = to.config.find("quantization_config");
    REQUIRE(q != nullptr);
    CHECK(q->get_string("quant_method") == "fp8");
    CHECK(q->get_array("weight_block_size")[1].as_int() == 128);
    for (const auto& [key, value] : from.config.as_object()) CHECK(*to.config.find(key) == value);
  }
}

TEST_CASE("convert to FP8: exact logits are those of the weights multiplied out") {
  const ScratchFolder scratch("convert");
  for (const char* name : {"deepseek_v3_bf16", "deepseek_v2_lite", "qwen3"}) {
    const std::string made = scratch.path() + "/" + name, out = made + "-f32";
    convert(random_model(name), made);
    write_multiplied_out(made, out);
    Runtime runtime = runtime_with(2);
    const auto ids = made_tokens(60, 4, 320);
    const auto got = all_logits(Model::open(runtime, made), ids, {.exact = true}),
               want = all_logits(Model::open(runtime, out), ids, {.exact = true}),
               before = all_logits(Model::open(runtime, random_model(name)), ids, {.exact = true});
    INFO(name << ": max difference " << max_difference(got, want) << " of " << max_abs(want));
    CHECK(max_difference(got, want) <= 1e-5 * max_abs(want));
    CHECK_FALSE(same_bits(got, before));
  }
}

TEST_CASE("convert there and back: bfloat16 that FP8 again turns into the same codes") {
  const ScratchFolder scratch("convert");
  const std::string a = scratch.path() + "/a", b = scratch.path() + "/b", c = scratch.path() + "/c";
  convert(random_model("deepseek_v3_bf16"), a);
  const ConvertReport back = convert(a, b, {.to = WeightFormat::bf16});
  CHECK(back.nmse < 1e-5);  // bfloat16 rounds code * scale to 8 bits
  convert(b, c);
  const io::Checkpoint first = io::open_checkpoint(a), middle = io::open_checkpoint(b), again = io::open_checkpoint(c);
  CHECK(named(middle, DType::f8_e4m3).empty());
  CHECK(middle.config.find("quantization_config") == nullptr);
  CHECK(named(first, DType::f8_e4m3) == named(again, DType::f8_e4m3));
  std::size_t codes = 0, same = 0;
  for (const io::TensorInfo& t : first.tensors) {
    if (t.type != DType::f8_e4m3) continue;
    const std::string x = bytes_of(first, t), y = bytes_of(again, *again.find(t.name));
    for (std::size_t i = 0; i < x.size(); ++i) same += x[i] == y[i];
    codes += x.size();
  }
  CHECK(same == codes);
}

TEST_CASE("convert FP8 as shipped to bfloat16: the recorded logits stay near") {
  const ScratchFolder scratch("convert");
  const std::string path = random_model("deepseek_v3_fp8");
  convert(path, scratch.path() + "/bf16", {.to = WeightFormat::bf16});
  Golden golden(path + "/golden.safetensors");
  const auto got = all_logits(Model::open(runtime_with(2), scratch.path() + "/bf16"), golden.ids("0.input_ids"), {.exact = true});
  INFO("NMSE " << nmse(got, golden.floats("0.logits")));
  CHECK(nmse(got, golden.floats("0.logits")) < 1e-3);
}

TEST_CASE("convert splits what is larger than a shard, with an index, and the bytes stay the same") {
  const ScratchFolder scratch("convert");
  const std::string whole = scratch.path() + "/whole", split = scratch.path() + "/split";
  convert(random_model("deepseek_v3_bf16"), whole);
  convert(random_model("deepseek_v3_bf16"), split, {.shard_bytes = 100'000});
  CHECK(fs::exists(split + "/model.safetensors.index.json"));
  const io::Checkpoint a = io::open_checkpoint(whole), b = io::open_checkpoint(split);
  CHECK(a.files.size() == 1);
  CHECK(b.files.size() > 2);
  CHECK(b.warnings.empty());
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (const io::TensorInfo& t : a.tensors) CHECK(bytes_of(a, t) == bytes_of(b, *b.find(t.name)));
}

TEST_CASE("convert copies the texts beside the weights, and no other file") {
  const ScratchFolder scratch("convert");
  const std::string in = scratch.path() + "/in", out = scratch.path() + "/out";
  fs::create_directory(in);
  for (const char* file : {"config.json", "model.safetensors"})
    fs::copy_file(random_model("llama") + "/" + file, in + "/" + file);
  for (const char* file :
       {"tokenizer.json", "chat_template.jinja", "tokenizer.model", "LICENSE", "pytorch_model.bin", "old.safetensors"})
    std::ofstream(in + "/" + file) << (std::string(file) == "tokenizer.json" ? "{}" : file);
  convert(in, out);
  std::set<std::string> names;
  for (const auto& e : fs::directory_iterator(out)) names.insert(e.path().filename().string());
  CHECK(names == std::set<std::string>{"LICENSE", "chat_template.jinja", "config.json", "model.safetensors", "tokenizer.json",
                                       "tokenizer.model"});
  CHECK(bytes_of(out + "/LICENSE") == "LICENSE");
}

TEST_CASE("convert that fails or is cancelled leaves nothing, and touches nothing that is there") {
  const ScratchFolder scratch("convert");
  const std::string source = random_model("deepseek_v3_bf16"), out = scratch.path() + "/out";
  int calls = 0;
  expect_error(Code::cancelled, {}, [&] {
    convert(source, out, {.progress = [&](Stage stage, std::uint64_t, std::uint64_t) {
              return stage != Stage::read_weights || ++calls < 20;
            }});
  });
  CHECK(calls == 20);
  CHECK_FALSE(fs::exists(out));
  CancelToken cancel;
  cancel.cancel();
  expect_error(Code::cancelled, {}, [&] { convert(source, out, {.cancel = &cancel}); });
  CHECK_FALSE(fs::exists(out));
  fs::create_directory(out);
  std::ofstream(out + "/mine") << "kept";
  expect_error(Code::argument, {"[write]"}, [&] { convert(source, out); });
  CHECK(bytes_of(out + "/mine") == "kept");
  fs::remove(out + "/mine");
  expect_error(Code::unsupported, {"[convert]", "quantization_config"}, [&] { convert(random_model("deepseek_v3_fp8"), out); });
  expect_error(Code::argument, {"[convert.in]"}, [&] { convert(source + "/config.json", out); });
  expect_error(Code::not_found, {"[open]"}, [&] { convert(source, scratch.path() + "/no/such/parent"); });
  CHECK(fs::is_empty(out));
  // A weight that is not finite.
  const std::string bad = scratch.path() + "/bad";
  fs::create_directory(bad);
  std::ofstream(bad + "/config.json") << "{}";
  std::ofstream(bad + "/model.safetensors", std::ios::binary)
      << SafetensorsBuilder().tensor("model.layers.0.self_attn.q_proj.weight", {1, 2, INFINITY, 4}, {2, 2}).build();
  expect_error(Code::format, {"q_proj"}, [&] { convert(bad, out); });
  CHECK(fs::is_empty(out));
}
