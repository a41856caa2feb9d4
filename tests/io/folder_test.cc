// Hugging Face folders: the files around the weights, shards, and an index that lies.
#include "lib/io/checkpoint.h"
#include "tests/expect_error.h"
#include "tests/memory_files.h"
#include "tests/safetensors_builder.h"

using namespace dsv31;
using namespace dsv31::io;
using namespace dsv31::test;

namespace {

constexpr const char* kIndex = "model.safetensors.index.json";

std::shared_ptr<MemoryFolder> sharded() {
  auto f = std::make_shared<MemoryFolder>();
  f->files["config.json"] = R"({"model_type":"llama","hidden_size":4})";
  f->files[kIndex] = R"({"metadata":{"total_size":8},"weight_map":{"a":"x-1.safetensors","b":"x-2.safetensors"}})";
  f->files["x-1.safetensors"] = SafetensorsBuilder().tensor("a", {1.0f}, {1}).build();
  f->files["x-2.safetensors"] = SafetensorsBuilder().tensor("b", {2.0f}, {1}).build();
  return f;
}

template <class Edit>
void expect_refused(Code code, std::initializer_list<std::string_view> parts, const Edit& edit) {
  const auto folder = sharded();
  REQUIRE(open_checkpoint(folder, "").tensors.size() == 2);
  edit(*folder);
  folder->opened.clear();
  expect_error(code, parts, [&] { open_checkpoint(folder, ""); });
  for (const std::string& name : folder->opened) CHECK(name.find_first_of("/\\") == std::string::npos);
}

}  // namespace

TEST_CASE("a folder gives its weights and the files around them") {
  auto f = std::make_shared<MemoryFolder>();
  f->files["config.json"] = R"({"model_type":"llama"})";
  f->files["generation_config.json"] = R"({"eos_token_id":[1,2]})";
  f->files["tokenizer_config.json"] = R"({"add_bos_token":true})";
  f->files["tokenizer.json"] = "{}";
  f->files["chat_template.jinja"] = "{{ messages }}";
  f->files["model.safetensors"] = SafetensorsBuilder().tensor("w", {1.0f, 2.0f}, {2}).build();
  const Checkpoint c = open_checkpoint(f, "");
  CHECK(c.config.get_string("model_type") == "llama");
  CHECK(c.generation_config.get_array("eos_token_id").size() == 2);
  CHECK(c.tokenizer_config.get_bool("add_bos_token"));
  REQUIRE(c.tokenizer_json != nullptr);
  CHECK(c.tokenizer_json->size() == 2);
  CHECK(c.chat_template_jinja == "{{ messages }}");
  CHECK(c.tensors.size() == 1);
  CHECK(c.warnings.empty());
}

TEST_CASE("files around the weights are optional but for config.json, and each is checked") {
  auto f = sharded();
  const Checkpoint c = open_checkpoint(f, "");
  CHECK(c.generation_config.is_null());
  CHECK(c.tokenizer_config.is_null());
  CHECK(c.tokenizer_json == nullptr);
  CHECK(c.chat_template_jinja.empty());
  expect_refused(Code::not_found, {"config.json"}, [](MemoryFolder& m) { m.files.erase("config.json"); });
  expect_refused(Code::not_found, {"model.safetensors"}, [](MemoryFolder& m) { m.files.erase(kIndex); });
  expect_refused(Code::format, {"config.json", "got array"}, [](MemoryFolder& m) { m.files["config.json"] = "[]"; });
  expect_refused(Code::format, {"generation_config.json", "byte"},
                 [](MemoryFolder& m) { m.files["generation_config.json"] = "{"; });
  expect_refused(Code::format, {"chat_template.jinja", "UTF-8"},
                 [](MemoryFolder& m) { m.files["chat_template.jinja"] = "\xFF"; });
  OpenOptions options;
  options.limits.max_text_bytes = 10;
  expect_error(Code::limit, {"config.json", "length"}, [&] { open_checkpoint(f, "", options); });
}

TEST_CASE("a single safetensors file takes config.json beside it where there is one") {
  auto f = sharded();
  CHECK(open_checkpoint(f, "x-1.safetensors").config.get_int("hidden_size") == 4);
  CHECK(open_checkpoint(f, "x-1.safetensors").tensors.size() == 1);
  f->files.erase("config.json");
  CHECK(open_checkpoint(f, "x-1.safetensors").config.is_null());
  expect_error(Code::not_found, {"absent.safetensors"}, [&] { open_checkpoint(f, "absent.safetensors"); });
  expect_error(Code::argument, {"folder"}, [] { open_checkpoint(std::shared_ptr<const Folder>(), "x"); });
  expect_error(Code::argument, {"reader"}, [] { open_checkpoint(std::shared_ptr<const Reader>()); });
}

TEST_CASE("tensors of the files that the index does not name are listed with a warning") {
  auto f = sharded();
  f->files["x-2.safetensors"] = SafetensorsBuilder().tensor("b", {2.0f}, {1}).tensor("extra", {3.0f}, {1}).build();
  const Checkpoint c = open_checkpoint(f, "");
  CHECK(c.find("extra") != nullptr);
  CHECK(c.warnings.size() == 1);
}

TEST_CASE("S08 an index whose file names lead out of the folder is an argument error and opens none of them") {
  for (const char* name : {"../x-2.safetensors", "/etc/passwd", "..", "sub/x-2.safetensors", "sub\\\\x-2.safetensors",
                           "C:x-2.safetensors", "", "x-2\\u0000.safetensors"})
    expect_refused(Code::argument, {kIndex, "\"b\""}, [&](MemoryFolder& f) {
      f.files[kIndex] = std::string(R"({"weight_map":{"a":"x-1.safetensors","b":")") + name + "\"}}";
    });
}

TEST_CASE("S08 a missing shard is a mismatch that names it") {
  expect_refused(Code::mismatch, {kIndex, "x-2.safetensors", "no such file"},
                 [](MemoryFolder& f) { f.files.erase("x-2.safetensors"); });
}

TEST_CASE("S08 a tensor with two homes, in another home or in none is a mismatch that names it") {
  expect_refused(Code::mismatch, {"\"a\"", "two files"}, [](MemoryFolder& f) {
    f.files["x-2.safetensors"] = SafetensorsBuilder().tensor("b", {2.0f}, {1}).tensor("a", {1.0f}, {1}).build();
  });
  expect_refused(Code::mismatch, {kIndex, "\"a\"", "another file"},
                 [](MemoryFolder& f) { f.files[kIndex] = R"({"weight_map":{"a":"x-2.safetensors","b":"x-1.safetensors"}})"; });
  expect_refused(Code::mismatch, {kIndex, "\"c\"", "no such tensor"}, [](MemoryFolder& f) {
    f.files[kIndex] = R"({"weight_map":{"a":"x-1.safetensors","b":"x-2.safetensors","c":"x-2.safetensors"}})";
  });
  expect_refused(Code::format, {kIndex, "\"a\"", "twice"},
                 [](MemoryFolder& f) { f.files[kIndex] = R"({"weight_map":{"a":"x-1.safetensors","a":"x-2.safetensors"}})"; });
}

TEST_CASE("S08 an index without a map of strings is a format error") {
  expect_refused(Code::format, {kIndex, "weight_map"}, [](MemoryFolder& f) { f.files[kIndex] = R"({"metadata":{}})"; });
  expect_refused(Code::format, {kIndex, "weight_map"}, [](MemoryFolder& f) { f.files[kIndex] = R"({"weight_map":[]})"; });
  expect_refused(Code::format, {kIndex, "\"b\"", "integer"},
                 [](MemoryFolder& f) { f.files[kIndex] = R"({"weight_map":{"a":"x-1.safetensors","b":2}})"; });
}
