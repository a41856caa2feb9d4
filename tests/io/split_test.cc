// Split sets of GGUF files.
#include "lib/io/checkpoint.h"
#include "tests/expect_error.h"
#include "tests/gguf_builder.h"
#include "tests/memory_files.h"

using namespace dsv31;
using namespace dsv31::io;
using namespace dsv31::test;

namespace {

constexpr const char* kFirst = "m-00001-of-00003.gguf";
constexpr const char* kSecond = "m-00002-of-00003.gguf";

GgufBuilder part(std::uint16_t no, const std::string& tensor) {
  GgufBuilder b;
  if (no == 0) b.string("general.architecture", "llama").u32("llama.block_count", 1);
  b.u16("split.no", no).u16("split.count", 3).i32("split.tensors.count", 3);
  b.tensor(tensor, {static_cast<float>(no)}, Shape(1));
  return b;
}

std::shared_ptr<MemoryFolder> set() {
  auto f = std::make_shared<MemoryFolder>();
  f->files[kFirst] = part(0, "a").build();
  f->files[kSecond] = part(1, "b").build();
  f->files["m-00003-of-00003.gguf"] = part(2, "c").build();
  return f;
}

template <class Edit>
void expect_refused(Code code, std::initializer_list<std::string_view> parts, const Edit& edit) {
  const auto folder = set();
  REQUIRE(open_checkpoint(folder, kFirst).tensors.size() == 3);
  edit(*folder);
  expect_error(code, parts, [&] { open_checkpoint(folder, kFirst); });
}

}  // namespace

TEST_CASE("a split set is one table over its files") {
  const Checkpoint c = open_checkpoint(set(), kFirst);
  CHECK(c.files.size() == 3);
  CHECK(c.metadata.string("general.architecture") == "llama");
  for (const TensorInfo& t : c.tensors) {
    float v = -1;
    c.files[t.file]->read_at(t.offset, &v, sizeof v);
    CHECK(v == static_cast<float>(t.file));
  }
  CHECK(c.find("c")->file == 2);
}

TEST_CASE("a file with split.count 1 is whole") {
  GgufBuilder b;
  b.u16("split.no", 0).u16("split.count", 1).tensor("a", {1.0f}, Shape(1));
  CHECK(open_checkpoint(reader_of(b.build())).tensors.size() == 1);
}

TEST_CASE("G17 a missing file of the set is a mismatch that names it") {
  expect_refused(Code::mismatch, {kSecond, "no such file"}, [](MemoryFolder& f) { f.files.erase(kSecond); });
}

TEST_CASE("G17 a file of another set is a mismatch that names it and the key") {
  expect_refused(Code::mismatch, {kSecond, "split.no = 2"}, [](MemoryFolder& f) { f.files[kSecond] = part(2, "b").build(); });
  expect_refused(Code::mismatch, {kSecond, "split.count = 2"}, [](MemoryFolder& f) {
    GgufBuilder b = part(1, "b");
    b.values[1].second = bytes_of<std::uint32_t>(2) + bytes_of<std::uint16_t>(2);
    f.files[kSecond] = b.build();
  });
  expect_refused(Code::mismatch, {kSecond, "split.tensors.count = 4"}, [](MemoryFolder& f) {
    GgufBuilder b = part(1, "b");
    b.values[2].second = bytes_of<std::uint32_t>(5) + bytes_of<std::int32_t>(4);
    f.files[kSecond] = b.build();
  });
  expect_refused(Code::mismatch, {kSecond, "general.architecture"},
                 [](MemoryFolder& f) { f.files[kSecond] = part(1, "b").string("general.architecture", "qwen2").build(); });
  expect_refused(Code::mismatch, {"\"a\"", "two files"}, [](MemoryFolder& f) { f.files[kSecond] = part(1, "a").build(); });
  expect_refused(Code::format, {"\"split.no\"", "no such key"}, [](MemoryFolder& f) {
    GgufBuilder b = part(1, "b");
    b.values.erase(b.values.begin());
    f.files[kSecond] = b.build();
  });
}

TEST_CASE("G17 a total of tensors that is not in the files is a mismatch") {
  expect_refused(Code::mismatch, {"split.tensors.count", "got 4"},
                 [](MemoryFolder& f) { f.files[kSecond] = part(1, "b").tensor("extra", {1.0f}, Shape(1)).build(); });
}

TEST_CASE("G17 a set opened by another file than its first, by another name or without a folder is an error of the call") {
  const auto folder = set();
  expect_error(Code::argument, {"split.no", "got file 1"}, [&] { open_checkpoint(folder, kSecond); });
  folder->files["renamed.gguf"] = folder->files[kFirst];
  expect_error(Code::argument, {"split.count", "one folder"}, [&] { open_checkpoint(folder, "renamed.gguf"); });
  expect_error(Code::argument, {"split.count", "one folder"}, [&] { open_checkpoint(reader_of(folder->files[kFirst])); });
  folder->files["m-00001-of-00002.gguf"] = folder->files[kFirst];
  expect_error(Code::mismatch, {"split.count", "got 3"}, [&] { open_checkpoint(folder, "m-00001-of-00002.gguf"); });
}

TEST_CASE("G17 a count of files out of range is a format error by key") {
  GgufBuilder b;
  b.u16("split.no", 0).i32("split.count", -1);
  expect_error(Code::format, {"\"split.count\"", "got -1"}, [&] { open_checkpoint(reader_of(b.build())); });
  GgufBuilder many;
  many.u16("split.no", 0).u16("split.count", 65535);
  expect_error(Code::format, {"\"split.count\"", "got 65535"}, [&] { open_checkpoint(reader_of(many.build())); });
}
