#include "lib/io/metadata.h"

#include "lib/io/checkpoint.h"
#include "tests/expect_error.h"
#include "tests/gguf_builder.h"
#include "tests/io/allocations.h"
#include "tests/memory_files.h"

using namespace dsv31;
using namespace dsv31::io;
using namespace dsv31::test;

TEST_CASE("GGUF values of every type are read back") {
  GgufBuilder b;
  b.u8("u8", 255).raw("i8", 1, bytes_of<std::int8_t>(-128)).u16("u16", 65535).raw("i16", 3, bytes_of<std::int16_t>(-32768));
  b.u32("u32", 4294967295u).i32("i32", -2147483647).u64("u64", 1ull << 62).i64("i64", -5).f32("f32", 1e-6f).f64("f64", 2.5);
  b.boolean("yes", true).boolean("no", false).string("s", "text").string("empty", "");
  b.strings("tokens", {"a", "", "\xC4\xA0x"}).f32s("scores", {0.5f, -1.0f}).i32s("types", {1, 3}).u32s("none", {});
  b.array<std::uint8_t>("flags", 7, {1, 0});
  const Checkpoint c = open_checkpoint(reader_of(b.build()));
  const Metadata& m = c.metadata;
  CHECK(m.size() == 19);
  CHECK(m.key(0) == "u8");
  CHECK(m.integer("u8") == 255);
  CHECK(m.integer("i8") == -128);
  CHECK(m.integer("u16") == 65535);
  CHECK(m.integer("i16") == -32768);
  CHECK(m.integer("u32") == 4294967295);
  CHECK(m.integer("i32") == -2147483647);
  CHECK(m.integer("u64") == std::int64_t{1} << 62);
  CHECK(m.integer("i64") == -5);
  CHECK(m.number("f32") == static_cast<double>(1e-6f));
  CHECK(m.number("f64") == 2.5);
  CHECK(m.number("u32") == 4294967295.0);
  CHECK(m.boolean("yes"));
  CHECK_FALSE(m.boolean("no"));
  CHECK(m.string("s") == "text");
  CHECK(m.string("empty").empty());
  const StringArray tokens = m.strings("tokens");
  REQUIRE(tokens.size() == 3);
  CHECK(tokens[0] == "a");
  CHECK(tokens[1].empty());
  CHECK(tokens[2] == "\xC4\xA0x");
  std::string joined;
  for (const std::string_view t : tokens) joined += t;
  CHECK(joined == "a\xC4\xA0x");
  CHECK(m.floats("scores") == std::vector<float>{0.5f, -1.0f});
  CHECK(m.numbers("types") == std::vector<double>{1, 3});
  CHECK(m.integers("types") == std::vector<std::int64_t>{1, 3});
  CHECK(m.integers("none").empty());
  CHECK(m.booleans("flags") == std::vector<bool>{true, false});
  CHECK(m.type_name("tokens") == "array of string");
  CHECK(m.type_name("u32") == "u32");
  CHECK(m.type_name("absent").empty());
  CHECK(m.is_array("none"));
  CHECK_FALSE(m.is_array("u8"));
  CHECK(m.count("tokens") == 3);
  CHECK(m.count("u8") == 1);
  CHECK(m.count("absent") == 0);
}

TEST_CASE("GGUF getters name the key, what was got and what was expected") {
  GgufBuilder b;
  b.u32("heads", 0).string("name", kCanary).u64("huge", ~0ull).f32("eps", std::numeric_limits<float>::quiet_NaN());
  b.f32s("freqs", {1.0f, std::numeric_limits<float>::infinity()}).i32s("list", {4, 5}).array<double>("wide", 12, {1e300});
  const Checkpoint c = open_checkpoint(reader_of(b.build()));
  const Metadata& m = c.metadata;
  CHECK(m.integer("heads", 0, 8) == 0);
  expect_error(Code::format, {"\"heads\"", "got 0", "[1, 8]"}, [&] { m.integer("heads", 1, 8); });
  expect_error(Code::format, {"\"heads\"", "got 0", "[1, 8]"}, [&] { m.integer_or("heads", 2, 1, 8); });
  expect_error(Code::format, {"\"name\"", "got string", "integer"}, [&] { m.integer("name"); });
  expect_error(Code::format, {"\"name\"", "got string", "bool"}, [&] { m.boolean_or("name", true); });
  expect_error(Code::format, {"\"huge\"", "got 18446744073709551615"}, [&] { m.integer("huge"); });
  expect_error(Code::format, {"\"eps\"", "got nan"}, [&] { m.number("eps"); });
  expect_error(Code::format, {"\"freqs\"", "got inf", "index 1"}, [&] { m.numbers("freqs"); });
  expect_error(Code::format, {"\"wide\"", "float32"}, [&] { m.floats("wide"); });
  expect_error(Code::format, {"\"list\"", "got array of i32", "an integer"}, [&] { m.integer("list"); });
  expect_error(Code::format, {"\"list\"", "got 5", "[0, 4]"}, [&] { m.integers("list", 0, 4); });
  expect_error(Code::format, {"\"list\"", "array of strings"}, [&] { m.strings("list"); });
  expect_error(Code::format, {"\"heads\"", "got u32", "a string"}, [&] { m.string_or("heads", ""); });
  expect_error(Code::format, {"\"absent\"", "no such key", "a number"}, [&] { m.number("absent"); });
  CHECK(m.integer_or("absent", 7) == 7);
  CHECK(m.number_or("absent", 0.5) == 0.5);
  CHECK(m.boolean_or("absent", true));
  CHECK(m.string_or("absent", "x") == "x");
}

TEST_CASE("a vocabulary of 200,000 strings takes a fixed number of allocations") {
  const auto cost = [](std::size_t n) {
    GgufBuilder b;
    std::vector<std::string> tokens;
    for (std::size_t i = 0; i < n; ++i) tokens.push_back("token-number-" + std::to_string(i));
    b.strings("tokenizer.ggml.tokens", tokens);
    const auto file = reader_of(b.build());
    const AllocationMeter meter;
    const Checkpoint c = open_checkpoint(file);
    const Allocations used = meter.used();
    REQUIRE(c.metadata.strings("tokenizer.ggml.tokens")[n - 1] == "token-number-" + std::to_string(n - 1));
    return used;
  };
  const Allocations small = cost(1000), large = cost(200'000);
  CHECK(large.calls <= small.calls + 16);  // a text that doubles
  CHECK(large.bytes < 200'000 * 120);
}
