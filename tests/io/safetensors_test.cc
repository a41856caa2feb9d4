#include "lib/io/safetensors.h"

#include "dsv31/quant.h"
#include "tests/expect_error.h"
#include "tests/memory_files.h"
#include "tests/safetensors_builder.h"

using namespace dsv31;
using namespace dsv31::io;
using namespace dsv31::test;

TEST_CASE("safetensors tensors are listed with absolute ranges") {
  SafetensorsBuilder b;
  b.metadata(R"({"format":"pt","note":"x"})")
      .tensor("w", {1, 2, 3, 4, 5, 6}, {2, 3})
      .tensor("s", "BF16", {}, "ab")
      .tensor("empty", "F32", {0, 4}, "");
  const Checkpoint c = open_checkpoint(reader_of(b.build()));
  CHECK(c.kind == Checkpoint::Kind::safetensors);
  REQUIRE(c.tensors.size() == 3);
  CHECK(c.config.is_null());
  CHECK(c.file_metadata.get_string("note") == "x");
  CHECK(c.find("w")->shape == Shape(2, 3));
  CHECK(c.find("w")->type == DType::f32);
  float six = 0;
  c.files[0]->read_at(c.find("w")->offset + 20, &six, 4);
  CHECK(six == 6.0f);
  CHECK(c.find("s")->shape.rank == 0);
  CHECK(c.find("s")->bytes == 2);
  CHECK(c.find("s")->offset == c.find("w")->offset + 24);
  CHECK(c.find("empty")->bytes == 0);
}

TEST_CASE("safetensors ranges may stand in any order in the header, and spaces may pad it") {
  const std::string header =
      R"({"b":{"data_offsets":[4,8],"dtype":"F32","shape":[1]},"z":{"dtype":"U8","shape":[0],"data_offsets":[4,4]}, "a":{"shape":[1],"dtype":"F32","data_offsets":[0,4]}})";
  const Checkpoint c = open_checkpoint(reader_of(safetensors_file(header + "     ", "aaaabbbb")));
  CHECK(c.find("b")->offset == c.find("a")->offset + 4);
  CHECK(c.tensors[0].name == "b");
}

TEST_CASE("every dtype of the format table is listed under its name") {
  SafetensorsBuilder b;
  std::size_t n = 0;
  for (const FormatInfo& f : formats())
    if (!f.safetensors.empty())
      b.tensor(f.name, f.safetensors, {2}, std::string(2 * static_cast<std::size_t>(f.bytes), 'x')), ++n;
  CHECK(n == 16);
  const Checkpoint c = open_checkpoint(reader_of(b.build()));
  for (const TensorInfo& t : c.tensors) CHECK(format(t.type).name == t.name);
  CHECK(c.tensors.size() == 16);
}

TEST_CASE("an empty safetensors file opens") {
  CHECK(open_checkpoint(reader_of(safetensors_file("{}", ""))).tensors.empty());
  CHECK(open_checkpoint(reader_of(safetensors_file(R"({"__metadata__":{}})", ""))).tensors.empty());
}
