#include "lib/io/bytes.h"

#include <limits>

#include "lib/io/name_index.h"
#include "tests/expect_error.h"
#include "tests/gguf_builder.h"
#include "tests/memory_files.h"

using namespace dsv31;
using namespace dsv31::io;
using namespace dsv31::test;

namespace {
constexpr std::uint64_t kTop = std::numeric_limits<std::uint64_t>::max();
constexpr Field kField{"gguf", "blk.0.w"};
}  // namespace

TEST_CASE("checked arithmetic holds at its boundary and throws one past it") {
  CHECK(checked_add(kTop - 1, 1, kField) == kTop);
  expect_error(Code::format, {"[gguf]", "blk.0.w"}, [] { checked_add(kTop, 1, kField); });
  CHECK(checked_mul(kTop / 3, 3, kField) == kTop);
  CHECK(checked_mul(0, kTop, kField) == 0);
  CHECK(checked_mul(kTop, 0, kField) == 0);
  expect_error(Code::format, {"blk.0.w"}, [] { checked_mul(kTop / 3 + 1, 3, kField); });
  expect_error(Code::limit, {"split"},
               [] { checked_mul(std::uint64_t{1} << 32, std::uint64_t{1} << 32, {"gguf", "split", Code::limit}); });
}

TEST_CASE("align_up holds up to the last multiple and throws after it") {
  CHECK(align_up(0, 32, kField) == 0);
  CHECK(align_up(1, 32, kField) == 32);
  CHECK(align_up(32, 32, kField) == 32);
  CHECK(align_up(5, 1, kField) == 5);
  CHECK(align_up(kTop - 31, 32, kField) == kTop - 31);
  expect_error(Code::format, {"blk.0.w"}, [] { align_up(kTop - 30, 32, kField); });
}

TEST_CASE("UTF-8 is checked strictly") {
  CHECK(valid_utf8(""));
  CHECK(valid_utf8("a\xC2\x80\xE2\x82\xAC\xF0\x90\x80\x80\xF4\x8F\xBF\xBF"));
  for (const char* bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xC2", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xE2\x82", "\xF0\x8F\xBF\xBF",
                          "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"})
    CHECK_FALSE(valid_utf8(bad));
}

TEST_CASE("a name is shown without control bytes and cut at a character") {
  CHECK(quoted("blk.0") == "\"blk.0\"");
  CHECK(quoted(std::string_view("a\0b\n\x7F\xFF\xC2\x85", 8)) == "\"a?b????\"");
  CHECK(quoted("\xE2\x82\xAC") == "\"\xE2\x82\xAC\"");
  const std::string long_name = quoted(std::string(200, 'x'));
  CHECK(long_name.size() == 84);
  CHECK(long_name.substr(80) == "...\"");
}

TEST_CASE("a cursor reads every scalar little-endian and counts its reads") {
  std::string s;
  append<std::uint8_t>(s, 0xFE);
  append<std::int8_t>(s, -2);
  append<std::uint16_t>(s, 0xFEDC);
  append<std::int16_t>(s, -300);
  append<std::uint32_t>(s, 0xFEDCBA98u);
  append<std::int32_t>(s, -70000);
  append<std::uint64_t>(s, 0xFEDCBA9876543210u);
  append<std::int64_t>(s, -5'000'000'000);
  append(s, 1.5f);
  append(s, -2.25);
  append_string(s, "hello");
  StringReader reader(s);
  Cursor c(reader, "test", 0, s.size());
  CHECK(c.u8("f") == 0xFE);
  CHECK(c.i8("f") == -2);
  CHECK(c.u16("f") == 0xFEDC);
  CHECK(c.i16("f") == -300);
  CHECK(c.u32("f") == 0xFEDCBA98u);
  CHECK(c.i32("f") == -70000);
  CHECK(c.u64("f") == 0xFEDCBA9876543210u);
  CHECK(c.i64("f") == -5'000'000'000);
  CHECK(c.f32("f") == 1.5f);
  CHECK(c.f64("f") == -2.25);
  CHECK(c.string(5, "f") == "hello");
  CHECK(c.remaining() == 0);
  CHECK(c.reads() == 1);
  CHECK(c.bytes_read() == s.size());
  expect_error(Code::format, {"[test]", "\"last\"", "byte 55"}, [&] { c.u8("last"); });
}

TEST_CASE("a cursor stays in its window and bounds strings by what is left and by the limit") {
  std::string s = bytes_of<std::uint64_t>(4) + "abcdEFGH";
  StringReader reader(s);
  Cursor c(reader, "test", 0, 12);
  CHECK(Cursor(reader, "test", 0, 12).string(4, "f") == "abcd");
  expect_error(Code::limit, {"\"f\"", "got a string of 4 bytes"}, [&] { Cursor(reader, "test", 0, 12).string(3, "f"); });
  expect_error(Code::format, {"\"f\"", "byte 8"}, [&] { Cursor(reader, "test", 0, 11).string(4, "f"); });
  expect_error(Code::format, {"\"f\""}, [&] { c.require(kTop, 8, "f"); });
  expect_error(Code::format, {"\"f\""}, [&] { c.require((kTop / 8) + 2, 8, "f"); });
  c.require(3, 4, "f");
}

TEST_CASE("a cursor delivers the same bytes across its buffer borders as one read") {
  std::string s(300'000, '\0');
  for (std::size_t i = 0; i < s.size(); ++i) s[i] = static_cast<char>(i * 131 >> 3);
  StringReader reader(s);
  Cursor c(reader, "test", 0, s.size());
  std::string got;
  for (std::size_t step = 1; c.remaining() > 0; step = step * 3 % 100'003 + 1) {
    const std::size_t n = std::min<std::size_t>(step, static_cast<std::size_t>(c.remaining()));
    std::string part(n, '\0');
    c.bytes(part.data(), n, "f");
    got += part;
  }
  CHECK(got == s);
  CHECK(c.bytes_read() == s.size());
}

TEST_CASE("read_text refuses a file above its limit") {
  CHECK(read_text(StringReader("abc"), 3, "config.json") == "abc");
  CHECK(read_text(StringReader(""), 3, "config.json").empty());
  expect_error(Code::limit, {"[config.json]", "length", "got 4"}, [] { read_text(StringReader("abcd"), 3, "config.json"); });
}

TEST_CASE("the name table finds every name, refuses a second one, and probes in linear number") {
  std::vector<std::string> names;
  for (int i = 0; i < 20'000; ++i)
    names.push_back("model.layers." + std::to_string(i % 61) + ".mlp.experts." + std::to_string(i) + ".weight");
  NameIndex index;
  const auto name_of = [&](std::uint32_t i) -> std::string_view { return names[i]; };
  for (std::uint32_t i = 0; i < names.size(); ++i) REQUIRE(index.insert(names[i], i, name_of, "test") == NameIndex::kNone);
  CHECK(index.insert(names[777], 20'000, name_of, "test") == 777);
  for (std::uint32_t i = 0; i < names.size(); ++i) REQUIRE(index.find(names[i], name_of) == i);
  CHECK(index.find("model.layers.0", name_of) == NameIndex::kNone);
  CHECK(NameIndex().find("x", name_of) == NameIndex::kNone);
  CHECK(index.probes() < 3 * names.size());
}

TEST_CASE("names made to collide are refused after a bounded number of probes") {
  // Runs the steps of NameIndex::hash for eight bytes backwards.
  constexpr std::uint64_t a = 0x9E3779B97F4A7C15u, b = 0xD6E8FEB86659FD93u;
  const auto inverse = [](std::uint64_t x) {
    std::uint64_t y = x;  // Newton: each step doubles the right bits
    for (int i = 0; i < 6; ++i) y *= 2 - x * y;
    return y;
  };
  const auto name_with = [&](std::uint64_t hash) {
    std::uint64_t h = (hash ^ (hash >> 32)) * inverse(a);
    h = (h ^ (h >> 29) ^ (h >> 58)) * inverse(b);
    h = (h ^ (h >> 32)) * inverse(a) * inverse(a);
    return bytes_of((std::rotr(h, 31) ^ (8 * a)) * inverse(b));
  };
  std::vector<std::string> names;
  for (std::uint64_t i = 0; i < 10'000; ++i) names.push_back(name_with((i << 32) | 5));
  REQUIRE(NameIndex::hash(names[7]) == ((std::uint64_t{7} << 32) | 5));
  NameIndex index;
  const auto name_of = [&](std::uint32_t i) -> std::string_view { return names[i]; };
  expect_error(Code::limit, {"[gguf]", "names"}, [&] {
    for (std::uint32_t i = 0; i < names.size(); ++i) index.insert(names[i], i, name_of, "gguf");
  });
  CHECK(index.probes() < 64 * 10'000);
}

TEST_CASE("cancel and a false progress callback end an open with cancelled") {
  CancelToken token;
  Progress no = [](Stage, std::uint64_t, std::uint64_t) { return false; };
  Watch(nullptr, &token).check();
  token.cancel();
  expect_error(Code::cancelled, {"cancel"}, [&] { Watch(nullptr, &token).check(); });
  expect_error(Code::cancelled, {"progress"}, [&] { Watch(&no, nullptr).report(Stage::read_metadata, 1, 2); });
}
