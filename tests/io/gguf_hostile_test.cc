// GGUF files made to break a reader. Each case has a twin one edit away that loads.
#include <limits>

#include "lib/io/checkpoint.h"
#include "tests/expect_error.h"
#include "tests/gguf_builder.h"
#include "tests/io/allocations.h"
#include "tests/memory_files.h"

using namespace dsv31;
using namespace dsv31::io;
using namespace dsv31::test;

namespace {

constexpr std::uint64_t kTop = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kSign = std::uint64_t{1} << 63;

GgufBuilder valid() {
  GgufBuilder b;
  b.string("general.name", kCanary).u32("llama.block_count", 1);
  b.tensor("a.weight", {1.0f, 2.0f}, Shape(2)).tensor("b.weight", DType::q8_0, Shape(1, 32)).tensor("c.weight", {3.0f}, Shape(1));
  return b;
}

Checkpoint load(const std::string& file) { return open_checkpoint(reader_of(file)); }
Checkpoint load(const GgufBuilder& b) { return load(b.build()); }

// The error of a valid file after one edit; the file before the edit loads.
template <class Edit>
void expect_refused(Code code, std::initializer_list<std::string_view> parts, const Edit& edit) {
  GgufBuilder b = valid();
  REQUIRE(load(b).tensors.size() == 3);
  edit(b);
  expect_error(code, parts, [&] { load(b); });
}

GgufBuilder one_key(std::string key, std::uint32_t type, std::string value) {
  GgufBuilder b;
  b.raw(std::move(key), type, std::move(value));
  return b;
}

std::string array_of(std::uint32_t type, std::uint64_t count, std::string elements) {
  return bytes_of(type) + bytes_of(count) + elements;
}

}  // namespace

TEST_CASE("G01 a file that is empty, too short or has another magic is refused at byte 0") {
  const std::string least = GgufBuilder().header();
  REQUIRE(least.size() == 24);
  CHECK(load(least).tensors.empty());
  expect_error(Code::format, {"magic", "byte 0"}, [] { load(std::string()); });
  for (std::size_t n = 1; n < 24; ++n) expect_error(Code::format, {"magic", "byte 0"}, [&] { load(least.substr(0, n)); });
  for (const char* magic : {"GGUG", "FUGG", "gguf", "<htm"})
    expect_refused(Code::format, {"magic", "byte 0"}, [&](GgufBuilder& b) { b.magic = magic; });
}

TEST_CASE("G02 versions other than 2 and 3 are unsupported, a big-endian file by that name") {
  for (const std::uint32_t version : {0u, 1u, 4u, 0xFFFFFFFFu})
    expect_refused(Code::unsupported, {"version", "byte 4"}, [&](GgufBuilder& b) { b.version = version; });
  expect_refused(Code::unsupported, {"version", "big-endian"}, [](GgufBuilder& b) { b.version = 0x03000000u; });
}

TEST_CASE("G03 counts beyond the cap or the file are refused before memory is taken") {
  const OpenLimits limits;
  for (const std::uint64_t n : {kSign, kTop, limits.max_tensors + 1, kTop / 112 + 1, kTop / 33 + 1}) {
    GgufBuilder b = valid();
    b.n_tensors = n;
    const auto file = reader_of(b.build());
    const AllocationMeter meter;
    expect_error(Code::limit, {"n_tensors", "byte 8"}, [&] { open_checkpoint(file); });
    CHECK(meter.used().bytes < 1 << 20);
  }
  for (const std::uint64_t n : {kSign, kTop, limits.max_keys + 1, kTop / 48 + 1}) {
    GgufBuilder b = valid();
    b.n_kv = n;
    const auto file = reader_of(b.build());
    const AllocationMeter meter;
    expect_error(Code::limit, {"n_kv", "byte 16"}, [&] { open_checkpoint(file); });
    CHECK(meter.used().bytes < 1 << 20);
  }
  {  // under the caps, above what the file can hold
    GgufBuilder b = valid();
    b.n_tensors = limits.max_tensors;
    const auto file = reader_of(b.build());
    const AllocationMeter meter;
    expect_error(Code::format, {"n_tensors"}, [&] { open_checkpoint(file); });
    CHECK(meter.used().bytes < 1 << 20);
  }
  expect_refused(Code::format, {"n_kv"}, [&](GgufBuilder& b) { b.n_kv = limits.max_keys; });
  expect_refused(Code::format, {"tensor name"}, [](GgufBuilder& b) { b.n_kv = 3; });  // takes the first tensor for a key
}

TEST_CASE("G04 a key that is empty, too long, past the end, or no UTF-8 is refused with its offset") {
  const std::string zero = bytes_of<std::uint8_t>(0);
  CHECK(load(one_key(std::string(65536, 'k'), 0, zero)).metadata.size() == 1);
  expect_error(Code::format, {"\"key\"", "byte 24", "65537"}, [&] { load(one_key(std::string(65537, 'k'), 0, zero)); });
  CHECK(load(one_key("k", 0, zero)).metadata.size() == 1);
  expect_error(Code::format, {"\"key\"", "byte 24", "got a key of 0"}, [&] { load(one_key("", 0, zero + zero)); });
  expect_error(Code::format, {"\"key\"", "byte 24", "zero byte"}, [&] { load(one_key(std::string(1, '\0'), 0, zero)); });
  expect_error(Code::format, {"\"key\"", "byte 24", "UTF-8"}, [&] { load(one_key("\xFF", 0, zero)); });
  CHECK(load(one_key("\xC3\xA9", 0, zero)).metadata.has("\xC3\xA9"));
  std::string file = one_key("k", 0, zero).header();
  CHECK(load(file).metadata.size() == 1);
  file[24] = 7;  // the key now needs one byte more than the file has
  expect_error(Code::format, {"\"key\"", "byte 32"}, [&] { load(file); });
}

TEST_CASE("G05 an unknown value type and an array of arrays are refused by key") {
  CHECK(load(one_key("k", 12, bytes_of(1.0))).metadata.number("k") == 1.0);
  for (const std::uint32_t type : {13u, 255u, 0xFFFFFFFFu})
    expect_error(Code::format, {"\"k\"", "byte 33", "value type"}, [&] { load(one_key("k", type, bytes_of(1.0))); });
  const std::string inner = array_of(0, 1, "x");
  CHECK(load(one_key("k", 9, inner)).metadata.count("k") == 1);
  expect_error(Code::format, {"\"k\"", "array of arrays"}, [&] { load(one_key("k", 9, array_of(9, 1, inner))); });
  expect_error(Code::format, {"\"k\"", "value type 13"}, [&] { load(one_key("k", 9, array_of(13, 1, "x"))); });
  CHECK(load(one_key("k", 7, std::string(1, '\1'))).metadata.boolean("k"));
  expect_error(Code::format, {"\"k\"", "neither 0 nor 1"}, [] { load(one_key("k", 7, std::string(1, '\2'))); });
}

TEST_CASE("G06 lengths past the file are refused by key without allocating them") {
  const auto refused = [](std::uint32_t type, const std::string& value, Code code = Code::format) {
    const auto file = reader_of(one_key("k", type, value).header());
    const AllocationMeter meter;
    expect_error(code, {"\"k\""}, [&] { open_checkpoint(file); });
    CHECK(meter.used().bytes < 1 << 20);
  };
  CHECK(load(one_key("k", 8, bytes_of<std::uint64_t>(3) + "abc").header()).metadata.string("k") == "abc");
  refused(8, bytes_of<std::uint64_t>(4) + "abc");
  for (const std::uint64_t n : {std::uint64_t{1} << 40, kSign, kTop}) refused(8, bytes_of(n) + "abc");
  CHECK(load(one_key("k", 9, array_of(4, 2, "12345678")).header()).metadata.integers("k").size() == 2);
  refused(9, array_of(4, 3, "12345678"));
  refused(9, array_of(4, (kTop / 4) + 2, "12345678"));   // count * 4 wraps to 4
  refused(9, array_of(10, (kTop / 8) + 2, "12345678"));  // count * 8 wraps to 8
  refused(9, array_of(8, 2, bytes_of<std::uint64_t>(0)));
  refused(9, array_of(8, std::uint64_t{1} << 61, bytes_of<std::uint64_t>(0)));
  refused(9, array_of(8, 2, bytes_of<std::uint64_t>(0) + bytes_of<std::uint64_t>(1)));
}

TEST_CASE("G07 repeated, empty and too long names are refused, never the last one taken") {
  expect_refused(Code::format, {"\"general.name\"", "twice"}, [](GgufBuilder& b) { b.string("general.name", "other"); });
  expect_refused(Code::format, {"\"a.weight\"", "twice"}, [](GgufBuilder& b) { b.tensors[2].name = "a.weight"; });
  expect_refused(Code::format, {"tensor name", "got 0 bytes"}, [](GgufBuilder& b) { b.tensors[1].name = ""; });
  GgufBuilder b = valid();
  b.tensors[1].name = std::string(63, 'n');
  CHECK(load(b).find(std::string(63, 'n')) != nullptr);
  expect_refused(Code::format, {"tensor name", "got 64 bytes"}, [](GgufBuilder& e) { e.tensors[1].name = std::string(64, 'n'); });
  expect_refused(Code::format, {"tensor name", "UTF-8"}, [](GgufBuilder& e) { e.tensors[1].name = "b.weigh\xC3"; });
  expect_refused(Code::format, {"tensor name", "zero byte"}, [](GgufBuilder& e) { e.tensors[1].name[1] = '\0'; });
}

TEST_CASE("G08 an alignment that is no power of two, too large or of another type is refused by key") {
  for (const std::uint32_t good : {1u, 32u, 64u, 1u << 20}) {
    GgufBuilder b = valid();
    b.alignment = good;
    CHECK(load(b.u32("general.alignment", good)).find("a.weight")->offset % good == 0);
  }
  for (const std::uint32_t bad : {0u, 3u, 33u, 1u << 21, 0x80000000u})
    expect_refused(Code::format, {"\"general.alignment\"", "power of two"},
                   [&](GgufBuilder& b) { b.u32("general.alignment", bad); });
  expect_refused(Code::format, {"\"general.alignment\"", "got u64"}, [](GgufBuilder& b) { b.u64("general.alignment", 32); });
  expect_refused(Code::format, {"\"general.alignment\"", "got i32"}, [](GgufBuilder& b) { b.i32("general.alignment", 32); });
  expect_refused(Code::format, {"\"general.alignment\"", "got array of u32"},
                 [](GgufBuilder& b) { b.u32s("general.alignment", {32}); });
  expect_refused(Code::format, {"\"general.alignment\"", "got string"},
                 [](GgufBuilder& b) { b.string("general.alignment", kCanary); });
}

TEST_CASE("G12 dimensions out of range are refused by tensor") {
  expect_refused(Code::format, {"\"b.weight\"", "got 0 dimensions"}, [](GgufBuilder& b) { b.tensors[1].n_dims = 0; });
  expect_refused(Code::format, {"\"b.weight\"", "got 5 dimensions"}, [](GgufBuilder& b) { b.tensors[1].n_dims = 5; });
  expect_refused(Code::format, {"\"b.weight\"", "got 4294967295 dimensions"},
                 [](GgufBuilder& b) { b.tensors[1].n_dims = 0xFFFFFFFFu; });
  expect_refused(Code::format, {"\"b.weight\"", "got dimension 0"}, [](GgufBuilder& b) { b.tensors[1].ne[1] = 0; });
  expect_refused(Code::format, {"\"b.weight\"", "got dimension -"}, [](GgufBuilder& b) { b.tensors[1].ne[1] = kSign; });
  expect_refused(Code::format, {"\"b.weight\"", "got dimension -1"}, [](GgufBuilder& b) { b.tensors[1].ne[0] = kTop; });
  expect_refused(Code::format, {"\"b.weight\"", "multiple of 32", "Q8_0"}, [](GgufBuilder& b) { b.tensors[1].ne[0] = 33; });
  GgufBuilder b = valid();
  b.tensors[1].ne = {32, 1, 1, 1};
  CHECK(load(b).find("b.weight")->shape == Shape(1, 1, 1, 32));
}

TEST_CASE("G13 products, paddings and sums that wrap are refused by tensor at each boundary") {
  const auto dims = [](std::vector<std::uint64_t> ne) { return [ne](GgufBuilder& b) { b.tensors[0].ne = ne; }; };
  // The product of the dimensions.
  expect_refused(Code::format, {"\"a.weight\"", "64 bits"}, dims({std::uint64_t{1} << 32, std::uint64_t{1} << 32}));
  expect_refused(Code::format, {"\"a.weight\"", "64 bits"},
                 dims({std::uint64_t{1} << 21, std::uint64_t{1} << 21, std::uint64_t{1} << 21, 2}));
  expect_refused(Code::format, {"\"a.weight\"", "2^63"}, dims({std::uint64_t{1} << 32, std::uint64_t{1} << 31}));
  // Times the size of an element: 2^62 * 4.
  expect_refused(Code::format, {"\"a.weight\"", "64 bits"}, dims({std::uint64_t{1} << 62}));
  // Plus padding: 2^64 - 4 bytes have no next multiple of 32.
  expect_refused(Code::format, {"\"a.weight\"", "64 bits"}, dims({(std::uint64_t{1} << 62) - 1}));
  // Running sum: the second tensor ends at 2^64.
  expect_refused(Code::format, {"\"b.weight\"", "64 bits"}, [](GgufBuilder& b) {
    b.tensors[0].ne = {std::uint64_t{1} << 61};
    b.tensors[1] = {"b.weight", {std::uint64_t{1} << 61}, 0, "", kSign, {}};
  });
  // Plus the start of the data: everything before fits.
  expect_refused(Code::format, {"\"a.weight\"", "64 bits"}, [](GgufBuilder& b) {
    b.tensors.resize(1);
    b.tensors[0].ne = {(std::uint64_t{1} << 62) - 8};
  });
  // Nothing wraps, the file is too short.
  expect_refused(Code::format, {"\"a.weight\"", "within the file"}, [](GgufBuilder& b) {
    b.tensors.resize(1);
    b.tensors[0].ne = {std::uint64_t{1} << 60};
  });
}

TEST_CASE("G14 types that are unknown, removed, negative or not read are unsupported by tensor and name") {
  const auto typed = [](std::uint32_t type) { return [type](GgufBuilder& b) { b.tensors[1].type = type; }; };
  expect_refused(Code::unsupported, {"\"b.weight\"", "type 4"}, typed(4));
  expect_refused(Code::unsupported, {"\"b.weight\"", "type 31"}, typed(31));
  expect_refused(Code::unsupported, {"\"b.weight\"", "type 16", "IQ2_XXS"}, typed(16));
  expect_refused(Code::unsupported, {"\"b.weight\"", "type 9", "Q8_1"}, typed(9));
  expect_refused(Code::unsupported, {"\"b.weight\"", "type 1000", "unknown"}, typed(1000));
  expect_refused(Code::unsupported, {"\"b.weight\"", "type -1", "unknown"}, typed(0xFFFFFFFFu));
}

TEST_CASE("G15 offsets that are unaligned, out of order, overlapping or past the end are refused by tensor") {
  const auto offset = [](std::size_t i, std::uint64_t o) { return [i, o](GgufBuilder& b) { b.tensors[i].offset = o; }; };
  CHECK(load(valid()).find("b.weight")->offset == load(valid()).find("a.weight")->offset + 32);
  expect_refused(Code::format, {"\"b.weight\"", "got offset 33"}, offset(1, 33));
  expect_refused(Code::format, {"\"b.weight\"", "got offset 0"}, offset(1, 0));
  expect_refused(Code::format, {"\"b.weight\"", "got offset 64"}, offset(1, 64));
  expect_refused(Code::format, {"\"a.weight\"", "got offset 32"}, offset(0, 32));
  expect_refused(Code::format, {"\"c.weight\""}, offset(2, kTop - 31));
  expect_refused(Code::format, {"\"a.weight\"", "got offset 96"}, [](GgufBuilder& b) {
    b.tensors[0].offset = 96;
    b.tensors[2].offset = 0;
  });
}

TEST_CASE("G15 a file cut by one byte of any tensor names that tensor") {
  const std::string file = valid().build();
  const Checkpoint whole = load(file);
  for (const TensorInfo& t : whole.tensors) {
    const std::uint64_t end = t.offset + t.bytes;
    const auto cut = reader_of(file.substr(0, end - 1));
    expect_error(Code::format, {t.name, "within the file"}, [&] { open_checkpoint(cut); });
  }
  CHECK(load(file.substr(0, whole.tensors.back().offset + whole.tensors.back().bytes)).tensors.size() == 3);
}

TEST_CASE("G18 a sparse file of 1 TiB costs no more than its header") {
  constexpr std::uint64_t tib = std::uint64_t{1} << 40;
  GgufBuilder b;
  b.tensor("a.weight", {1.0f}, Shape(1));
  b.tensors[0].ne = {tib / 8};
  const auto file = std::make_shared<SparseReader>(b.header(), tib);
  const AllocationMeter meter;
  const Checkpoint c = open_checkpoint(file);
  CHECK(c.find("a.weight")->bytes == tib / 2);
  CHECK(c.count.bytes_read <= 1 << 16);
  CHECK(meter.used().bytes < 1 << 20);
  // The same claim for metadata is bounded by the limit of metadata, not by the file.
  for (const std::string& value : {bytes_of<std::uint64_t>(tib / 2), std::string()}) {
    const bool is_string = !value.empty();
    GgufBuilder k = is_string ? one_key("k", 8, value) : one_key("k", 9, array_of(10, tib / 16, ""));
    const auto claim = std::make_shared<SparseReader>(k.header(), tib);
    const AllocationMeter claimed;
    expect_error(Code::limit, {"\"k\""}, [&] { open_checkpoint(claim); });
    CHECK(claimed.used().bytes < 1 << 20);
  }
}
