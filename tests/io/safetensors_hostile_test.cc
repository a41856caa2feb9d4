// safetensors files made to break a reader. Each case has a twin one edit away that loads.
#include <limits>

#include "lib/io/checkpoint.h"
#include "tests/expect_error.h"
#include "tests/gguf_builder.h"
#include "tests/io/allocations.h"
#include "tests/memory_files.h"
#include "tests/safetensors_builder.h"

using namespace dsv31;
using namespace dsv31::io;
using namespace dsv31::test;

namespace {

constexpr const char* kData = "aaaabbbbcccc";
const std::string kA = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
const std::string kB = R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]})";

Checkpoint load(const std::string& file) {
  auto folder = std::make_shared<MemoryFolder>();
  folder->files["m.safetensors"] = file;
  return open_checkpoint(folder, "m.safetensors");
}
Checkpoint load_header(const std::string& header, const std::string& data = kData) {
  return load(safetensors_file(header, data));
}

// The header of a and an edited b; the file with the true b loads.
void expect_b_refused(Code code, std::initializer_list<std::string_view> parts, const std::string& b) {
  REQUIRE(load_header("{" + kA + "," + kB + "}").tensors.size() == 2);
  expect_error(code, parts, [&] { load_header("{" + kA + "," + b + "}"); });
}

}  // namespace

TEST_CASE("S01 a header length that is zero, past the file or past the cap is refused without allocating it") {
  const std::string good = safetensors_file("{" + kA + "," + kB + "}", kData);
  CHECK(load(good).tensors.size() == 2);
  for (std::size_t n = 0; n < 8; ++n) expect_error(Code::format, {"header length", "byte 0"}, [&] { load(good.substr(0, n)); });
  const auto with_length = [&](std::uint64_t n) { return bytes_of(n) + good.substr(8); };
  CHECK(load(with_length(good.size() - 8 - 12)).tensors.size() == 2);
  for (const std::uint64_t n : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{good.size() - 7}, std::uint64_t{100'000'000}}) {
    const AllocationMeter meter;
    expect_error(Code::format, {"header length", "byte 0"}, [&] { load(with_length(n)); });
    CHECK(meter.used().bytes < 1 << 20);
  }
  for (const std::uint64_t n : {std::uint64_t{100'000'001}, std::uint64_t{1} << 63, std::numeric_limits<std::uint64_t>::max()}) {
    const AllocationMeter meter;
    expect_error(Code::limit, {"header length", "byte 0"}, [&] { load(with_length(n)); });
    CHECK(meter.used().bytes < 1 << 20);
  }
}

TEST_CASE("S02 a header that is no single JSON object in UTF-8 is refused") {
  const std::string good = "{" + kA + "," + kB + "}";
  CHECK(load_header(good + "   ").tensors.size() == 2);
  expect_error(Code::format, {"header", "byte 8"}, [&] { load_header(" " + good); });
  expect_error(Code::format, {"header", "byte 8"}, [&] { load_header("[" + good + "]"); });
  expect_error(Code::format, {"header"}, [&] { load_header(good + std::string(3, '\0')); });
  expect_error(Code::format, {"header"}, [&] { load_header(good + "\n"); });
  expect_error(Code::format, {"header"}, [&] { load_header(good + "x"); });
  expect_error(Code::format, {"byte"}, [&] { load_header(good + "{}"); });
  expect_error(Code::format, {"byte"}, [&] { load_header(good.substr(0, good.size() - 1) + ",}"); });
  expect_error(Code::format, {"zero byte"}, [&] { load_header(good.substr(0, 1) + std::string(1, '\0') + good.substr(1)); });
  CHECK(load_header(R"({"__metadata__":{"k":"é"},)" + kA + "," + kB + "}").tensors.size() == 2);
  expect_error(Code::format, {"byte"}, [&] { load_header("{\"__metadata__\":{\"k\":\"\xC3\"}," + kA + "," + kB + "}"); });
}

TEST_CASE("S03 repeated names, metadata that is no string and deep nesting are refused") {
  expect_b_refused(Code::format, {"\"a\"", "twice"}, R"("a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]})");
  expect_b_refused(Code::format, {"\"b\"", "twice"}, R"("b":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[4,12]})");
  const auto with_metadata = [](const std::string& value) { return "{\"__metadata__\":" + value + "," + kA + "," + kB + "}"; };
  CHECK(load_header(with_metadata(R"({"k":"CANARY-5d1"})")).file_metadata.get_string("k") == kCanary);
  for (const char* bad :
       {R"({"k":1})", R"({"k":null})", R"({"k":{}})", R"({"k":["CANARY-5d1"]})", "[]", "\"CANARY-5d1\"", "null", "true", "1.5"})
    expect_error(Code::format, {"__metadata__"}, [&] { load_header(with_metadata(bad)); });
  expect_error(Code::format, {"__metadata__", "\"k\"", "twice"}, [&] { load_header(with_metadata(R"({"k":"x","k":"y"})")); });
  expect_error(Code::format, {"__metadata__", "twice"},
               [&] { load_header(R"({"__metadata__":{},"__metadata__":{},)" + kA + "," + kB + "}"); });
  expect_b_refused(Code::limit, {"nesting"},
                   R"("b":{"dtype":"F32","shape":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}");
  expect_b_refused(Code::format, {"\"b\""}, "\"b\":" + std::string(100'000, '['));
}

TEST_CASE("S04 ranges that are reversed, overlap, leave a hole or leave the file are refused by tensor") {
  const auto b_at = [](const std::string& range, int n) {
    return R"("b":{"dtype":"F32","shape":[)" + std::to_string(n) + R"(],"data_offsets":[)" + range + "]}";
  };
  expect_b_refused(Code::format, {"\"b\"", "12 to 4"}, b_at("12,4", 2));
  expect_b_refused(Code::format, {"\"b\"", "from 0"}, b_at("0,12", 3));
  expect_b_refused(Code::format, {"\"b\"", "from 8"}, b_at("8,12", 1));
  expect_b_refused(Code::format, {"\"b\"", "4 to 16"}, b_at("4,16", 3));
  expect_b_refused(Code::format, {"\"b\"", "8 bytes of data"}, b_at("4,8", 1));
  expect_b_refused(Code::format, {"\"b\""}, b_at("4,12,12", 2));
  expect_b_refused(Code::format, {"\"b\"", "got 1 data_offsets"}, b_at("4", 2));
  expect_b_refused(Code::format, {"\"b\"", "2^63"}, b_at("4,18446744073709551615", 2));
  expect_b_refused(Code::format, {"\"b\"", "negative"}, b_at("-4,4", 2));
  // A tensor without bytes stands between two others, never inside one.
  CHECK(load_header("{" + kA + "," + kB + R"(,"z":{"dtype":"F32","shape":[0],"data_offsets":[4,4]}})").tensors.size() == 3);
  expect_error(Code::format, {"\"z\"", "from 8"},
               [] { load_header("{" + kA + "," + kB + R"(,"z":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}})"); });
  // Data that no tensor covers, and a file cut by one byte.
  const std::string header = "{" + kA + "," + kB + "}";
  CHECK(load_header(header, std::string(12, 'x')).tensors.size() == 2);
  expect_error(Code::format, {"\"b\"", "expected 13"}, [&] { load_header(header, std::string(13, 'x')); });
  expect_error(Code::format, {"\"b\"", "11 bytes"}, [&] { load_header(header, std::string(11, 'x')); });
  expect_error(Code::format, {"\"data\""}, [] { load_header("{}", "x"); });
}

TEST_CASE("S05 a shape that does not give the range is refused by tensor") {
  const auto shaped = [](const std::string& shape) {
    return R"("b":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":[4,12]})";
  };
  CHECK(load_header("{" + kA + "," + shaped("[2,1,1,1]") + "}").find("b")->shape == Shape(2, 1, 1, 1));
  expect_b_refused(Code::format, {"\"b\"", "expected 4"}, shaped("[1]"));
  expect_b_refused(Code::format, {"\"b\"", "expected 4"}, shaped("[]"));
  expect_b_refused(Code::format, {"\"b\"", "expected 0"}, shaped("[2,0]"));
  expect_b_refused(Code::format, {"\"b\"", "64 bits"}, shaped("[4611686018427387904,2,2]"));
  expect_b_refused(Code::format, {"\"b\"", "64 bits"}, shaped("[4611686018427387906]"));  // * 4 wraps to 8
  expect_b_refused(Code::format, {"\"b\"", "negative"}, shaped("[-2]"));
  expect_b_refused(Code::format, {"\"b\"", "no integer"}, shaped("[2.0]"));
  expect_b_refused(Code::format, {"\"b\"", "2^63"}, shaped("[18446744073709551615]"));
  expect_b_refused(Code::format, {"\"b\"", "a string"}, shaped("[\"2\"]"));
  expect_b_refused(Code::format, {"\"b\"", "an object"}, shaped("{}"));
  expect_b_refused(Code::format, {"\"b\"", "null"}, shaped("null"));
  expect_b_refused(Code::unsupported, {"\"b\"", "4 dimensions"}, shaped("[2,1,1,1,1]"));
}

TEST_CASE("S05 an entry with a missing, repeated or unknown key is refused by tensor") {
  expect_b_refused(Code::format, {"\"b\"", "all three"}, R"("b":{"shape":[2],"data_offsets":[4,12]})");
  expect_b_refused(Code::format, {"\"b\"", "all three"}, R"("b":{"dtype":"F32","data_offsets":[4,12]})");
  expect_b_refused(Code::format, {"\"b\"", "all three"}, R"("b":{"dtype":"F32","shape":[2]})");
  expect_b_refused(Code::format, {"\"b\"", "all three"}, R"("b":{})");
  expect_b_refused(Code::format, {"\"b\"", "\"extra\""}, R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12],"extra":1})");
  expect_b_refused(Code::format, {"\"b\"", "an array"}, R"("b":[])");
  expect_b_refused(Code::format, {"\"\"", "empty name"}, R"("":{"dtype":"F32","shape":[2],"data_offsets":[4,12]})");
}

TEST_CASE("S06 an unknown dtype is unsupported by tensor") {
  expect_b_refused(Code::unsupported, {"\"b\"", "\"F4\""}, R"("b":{"dtype":"F4","shape":[2],"data_offsets":[4,12]})");
  expect_b_refused(Code::unsupported, {"\"b\""}, R"("b":{"dtype":"","shape":[2],"data_offsets":[4,12]})");
  expect_b_refused(Code::unsupported, {"\"b\""}, R"("b":{"dtype":"f32","shape":[2],"data_offsets":[4,12]})");
  expect_b_refused(Code::format, {"\"b\"", "dtype"}, R"("b":{"dtype":7,"shape":[2],"data_offsets":[4,12]})");
}

TEST_CASE("S06 an FP8 matrix needs a scale for each block, in any file") {
  struct Case {
    std::string scale_name = "w.weight_scale_inv", dtype = "F32";
    std::vector<std::int64_t> shape{2, 3};
    std::string config = R"({"quantization_config":{"weight_block_size":[128,128]}})";
  };
  const auto open = [](const Case& k) {
    std::size_t n = k.dtype == "F32" ? 4 : k.dtype == "BF16" ? 2 : 1;
    for (const std::int64_t d : k.shape) n *= static_cast<std::size_t>(d);
    auto folder = std::make_shared<MemoryFolder>();
    folder->files["config.json"] = k.config;
    folder->files["model.safetensors.index.json"] =
        R"({"weight_map":{"w.weight":"1.safetensors",")" + k.scale_name + R"(":"2.safetensors"}})";
    folder->files["1.safetensors"] =
        SafetensorsBuilder().tensor("w.weight", "F8_E4M3", {129, 257}, std::string(129 * 257, 'x')).build();
    folder->files["2.safetensors"] = SafetensorsBuilder().tensor(k.scale_name, k.dtype, k.shape, std::string(n, 'x')).build();
    return open_checkpoint(folder, "");
  };
  CHECK(open({}).find("w.weight_scale_inv")->file == 1);
  CHECK(open({.dtype = "F8_E8M0"}).tensors.size() == 2);
  CHECK(open({.config = "{}"}).tensors.size() == 2);
  CHECK(open({.shape = {3, 5}, .config = R"({"quantization_config":{"weight_block_size":[64,64]}})"}).tensors.size() == 2);
  expect_error(Code::mismatch, {"w.weight_scale_inv", "(1, 3)", "(2, 3)"}, [&] { open({.shape = {1, 3}}); });
  expect_error(Code::mismatch, {"w.weight_scale_inv"}, [&] { open({.shape = {2, 3, 1}}); });
  expect_error(Code::mismatch, {"w.weight_scale_inv", "dtype"}, [&] { open({.dtype = "BF16"}); });
  expect_error(Code::mismatch, {"w.weight", "without"}, [&] { open({.scale_name = "v.weight_scale_inv"}); });
  expect_error(Code::format, {"weight_block_size"},
               [&] { open({.config = R"({"quantization_config":{"weight_block_size":[0,128]}})"}); });
  expect_error(Code::format, {"weight_block_size"},
               [&] { open({.config = R"({"quantization_config":{"weight_block_size":128}})"}); });
}
