#include "lib/io/gguf.h"

#include <new>

#include "tests/expect_error.h"
#include "tests/gguf_builder.h"
#include "tests/memory_files.h"

using namespace dsv31;
using namespace dsv31::io;
using namespace dsv31::test;

namespace {

GgufBuilder two_tensors() {
  GgufBuilder b;
  b.string("general.architecture", "llama")
      .tensor("norm.weight", {1.0f, 2.0f, 3.0f}, Shape(3))
      .tensor("w.weight", DType::q4_0, Shape(2, 64));
  return b;
}

}  // namespace

TEST_CASE("GGUF tensors are listed with absolute ranges and the most significant dimension first") {
  const std::string file = two_tensors().build();
  const Checkpoint c = open_checkpoint(reader_of(file));
  CHECK(c.kind == Checkpoint::Kind::gguf);
  REQUIRE(c.tensors.size() == 2);
  CHECK(c.warnings.empty());
  const TensorInfo* norm = c.find("norm.weight");
  const TensorInfo* w = c.find("w.weight");
  REQUIRE(norm != nullptr);
  REQUIRE(w != nullptr);
  CHECK(c.find("w.weigh") == nullptr);
  CHECK(norm->shape == Shape(3));
  CHECK(norm->bytes == 12);
  CHECK(norm->offset % 32 == 0);
  float values[3];
  c.files[norm->file]->read_at(norm->offset, values, sizeof values);
  CHECK(values[2] == 3.0f);
  CHECK(w->type == DType::q4_0);
  CHECK(w->shape == Shape(2, 64));
  CHECK(w->bytes == 2 * 2 * 18);
  CHECK(w->offset == norm->offset + 32);
  CHECK(w->offset + 96 == file.size());
}

TEST_CASE("versions 2 and 3 read alike") {
  GgufBuilder b = two_tensors();
  b.version = 2;
  CHECK(open_checkpoint(reader_of(b.build())).tensors.size() == 2);
}

TEST_CASE("a vocabulary without tensors opens, with and without the padding of its data") {
  GgufBuilder b;
  b.strings("tokenizer.ggml.tokens", {"a", "b"});
  CHECK(open_checkpoint(reader_of(b.header())).metadata.strings("tokenizer.ggml.tokens").size() == 2);
  CHECK(open_checkpoint(reader_of(b.build())).tensors.empty());
}

TEST_CASE("the padding after the last tensor is optional and more bytes are a warning") {
  GgufBuilder b;
  b.tensor("a", {1.0f}, Shape(1));
  std::string file = b.build();
  CHECK(open_checkpoint(reader_of(file + std::string(40, 'x'))).warnings.size() == 1);
  file.resize(file.size() - 28);
  const Checkpoint c = open_checkpoint(reader_of(file));
  CHECK(c.find("a")->offset + 4 == file.size());
  CHECK(c.warnings.empty());
}

TEST_CASE("the alignment key moves the data") {
  GgufBuilder b;
  b.alignment = 128;
  b.u32("general.alignment", 128).tensor("a", {1.0f}, Shape(1)).tensor("b", {2.0f}, Shape(1));
  const Checkpoint c = open_checkpoint(reader_of(b.build()));
  CHECK(c.find("a")->offset % 128 == 0);
  CHECK(c.find("b")->offset == c.find("a")->offset + 128);
}

TEST_CASE("every type of the format table that GGUF has is listed") {
  GgufBuilder b;
  std::size_t n = 0;
  for (const FormatInfo& f : formats())
    if (f.ggml_id >= 0) b.tensor(std::string("t").append(std::to_string(n++)), f.type, Shape(3, f.block));
  const Checkpoint c = open_checkpoint(reader_of(b.build()));
  CHECK(c.tensors.size() == n);
  for (const TensorInfo& t : c.tensors) CHECK(t.bytes == 3 * static_cast<std::uint64_t>(format(t.type).bytes));
}

TEST_CASE("opening reports progress that never falls and can be cancelled from it") {
  std::vector<std::uint64_t> done;
  OpenOptions options;
  options.progress = [&](Stage stage, std::uint64_t d, std::uint64_t total) {
    CHECK(stage == Stage::read_metadata);
    CHECK(d <= total);
    CHECK((done.empty() || done.back() <= d));
    done.push_back(d);
    return true;
  };
  const std::string file = two_tensors().build();
  open_checkpoint(reader_of(file), options);
  CHECK(done.back() == file.size());
  options.progress = [](Stage, std::uint64_t, std::uint64_t) { return false; };
  expect_error(Code::cancelled, {"progress"}, [&] { open_checkpoint(reader_of(file), options); });
  options.progress = nullptr;
  CancelToken token;
  options.cancel = &token;
  CHECK(open_checkpoint(reader_of(file), options).tensors.size() == 2);
  token.cancel();
  expect_error(Code::cancelled, {"cancel"}, [&] { open_checkpoint(reader_of(file), options); });
}

TEST_CASE("memory that is not there while opening is no_memory") {
  struct Starved final : Reader {
    std::uint64_t size() const override { return 1000; }
    void read_at(std::uint64_t, void*, std::size_t) const override { throw std::bad_alloc(); }
  };
  expect_error(Code::no_memory, {"metadata"}, [] { open_checkpoint(std::make_shared<Starved>()); });
}
