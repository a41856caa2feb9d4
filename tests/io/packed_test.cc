// Packed files: what is written is read again, and every damaged field is refused by name.
#include "lib/io/packed.h"

#include <limits>

#include "tests/expect_error.h"
#include "tests/gguf_builder.h"
#include "tests/io/allocations.h"
#include "tests/memory_files.h"
#include "tests/packed_builder.h"

using namespace dsv31;
using namespace dsv31::io;
using namespace dsv31::test;

namespace {

constexpr std::uint64_t kTop = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kSign = std::uint64_t{1} << 63;

// Offsets of fields of the header.
enum Header : std::size_t {
  kVersion = 8,
  kAbi = 12,
  kFileBytes = 16,
  kHeadBytes = 24,
  kPayloadOffset = 32,
  kPayloadBytes = 40,
  kHeadChecksum = 48,
  kSourceKind = 72,
  kReserved = 76
};

PackedBuilder valid() {
  GgufBuilder g;
  g.string("general.architecture", "llama").string("general.name", kCanary).u32("llama.block_count", 2);
  g.tensor("a.weight", DType::q8_0, Shape(20, 64));
  g.tensor("norm.weight", {1.0f, 2.0f, 3.0f, 4.0f}, Shape(4));
  g.tensor("b.weight", DType::f32, Shape(3, 5));
  PackedBuilder b;
  b.source = open_checkpoint(reader_of(g.build()));
  b.add("a.weight", DType::q8_0, 20, 64, 32 * 68);
  b.add("b.weight", DType::f32, 3, 5, 320);
  b.matrices[1].scale_count = 3;
  return b;
}

Checkpoint load(std::string bytes) { return open_checkpoint(reader_of(std::move(bytes))); }

void refused(Code code, std::initializer_list<std::string_view> parts, const std::function<void(PackedBuilder&)>& edit) {
  PackedBuilder b = valid();
  edit(b);
  const auto file = reader_of(b.build());
  const AllocationMeter meter;
  expect_error(code, parts, [&] { open_checkpoint(file); });
  CHECK(meter.used().bytes < 1 << 20);
}
template <class T>
void refused_header(Code code, std::initializer_list<std::string_view> parts, std::size_t at, T value) {
  refused(code, parts, [&](PackedBuilder& b) { b.edit_header = [=](std::string& h) { put_at(h, at, value); }; });
}
// The bytes of `field` in the head become `value`.
template <class T>
void refused_head(Code code, std::initializer_list<std::string_view> parts, std::string_view after, std::size_t skip, T value) {
  refused(code, parts, [&](PackedBuilder& b) {
    b.edit_head = [=](std::string& head) {
      const std::size_t at = head.find(after);
      REQUIRE(at != head.npos);
      put_at(head, at + after.size() + skip, value);
    };
  });
}
std::string shown(std::string_view name) {
  std::string s;
  append_string(s, name);
  return s;
}

}  // namespace

TEST_CASE("a packed GGUF has the source's keys, tensors and short vectors, and its matrices") {
  PackedBuilder b = valid();
  const Checkpoint c = load(b.build());
  CHECK(c.kind == Checkpoint::Kind::gguf);
  CHECK(c.metadata.string("general.name") == kCanary);
  CHECK(c.metadata.integer("llama.block_count") == 2);
  REQUIRE(c.tensors.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(c.tensors[i].name == b.source.tensors[i].name);
    CHECK(c.tensors[i].type == b.source.tensors[i].type);
    CHECK(c.tensors[i].shape == b.source.tensors[i].shape);
    CHECK(c.tensors[i].bytes == b.source.tensors[i].bytes);
  }
  float norm[4];
  const TensorInfo* t = c.find("norm.weight");
  c.files[t->file]->read_at(t->offset, norm, sizeof norm);
  CHECK(norm[3] == 4.0f);
  char byte;
  const TensorInfo* a = c.find("a.weight");
  expect_error(Code::io, {"packed"}, [&] { c.files[a->file]->read_at(a->offset, &byte, 1); });
  REQUIRE(c.packed != nullptr);
  CHECK(c.packed->source_hash == 0x0123456789abcdefu);
  CHECK(c.packed->source_bytes == 99);
  REQUIRE(c.packed->matrices.size() == 2);
  CHECK(c.packed->matrices[1].name == "b.weight");
  CHECK(c.packed->matrices[1].layout == "n16k4");
  CHECK(c.packed->matrices[1].stride == 320);
  CHECK(c.packed->matrices[1].scale_count == 3);
  CHECK(c.packed->matrices[0].offset % kPayloadAlignment == 0);
  CHECK(c.packed->matrices[1].offset % kMatrixAlignment == 0);
}

TEST_CASE("a packed folder has the texts of its files") {
  const std::string tensor =
      R"({"n":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"s":{"dtype":"F32","shape":[],"data_offsets":[4,8]}})";
  const auto folder = std::make_shared<MemoryFolder>(std::map<std::string, std::string>{
      {"config.json", R"({"model_type":"llama"})"},
      {"tokenizer.json", "{}"},
      {"chat_template.jinja", "{{ x }}"},
      {"model.safetensors", bytes_of<std::uint64_t>(tensor.size()) + tensor + bytes_of(1.0f) + bytes_of(2.0f)}});
  PackedBuilder b;
  b.source = open_checkpoint(folder, "");
  const Checkpoint c = load(b.build());
  CHECK(c.kind == Checkpoint::Kind::safetensors);
  CHECK(c.config.get_string("model_type") == "llama");
  CHECK(c.generation_config.is_null());
  REQUIRE(c.tokenizer_json != nullptr);
  CHECK(read_text(*c.tokenizer_json, 10, "t") == "{}");
  CHECK(c.chat_template_jinja == "{{ x }}");
  CHECK(c.find("s")->shape.rank == 0);
  float s = 0;
  c.files[0]->read_at(c.find("s")->offset, &s, sizeof s);
  CHECK(s == 2.0f);
}

TEST_CASE("another version or packing is unsupported, whatever the rest says") {
  for (const std::uint32_t v : {0u, 2u, 0xFFFFFFFFu}) {
    PackedBuilder b = valid();
    std::string file = b.build();
    put_at(file, kVersion, v);  // with the checksum of another header
    expect_error(Code::unsupported, {"version"}, [&] { load(file); });
  }
  refused_header(Code::unsupported, {"packing_abi", "pack the model again"}, kAbi, std::uint32_t{kPackingAbi + 1});
}

TEST_CASE("a file that is cut short or has bytes behind its end is refused, cut anywhere") {
  PackedBuilder b = valid();
  const std::string file = b.build();
  CHECK(load(file).tensors.size() == 3);
  for (std::size_t n : {std::size_t{8}, std::size_t{127}, std::size_t{128}, std::size_t{200}, std::size_t{4096}, file.size() - 1})
    expect_error(Code::format, {"file_bytes"}, [&] { load(file.substr(0, n)); });
  expect_error(Code::format, {"file_bytes", "too long"}, [&] { load(file + '\0'); });
}

TEST_CASE("every damaged byte is found: of header and head on opening, of the payload by verification") {
  PackedBuilder b = valid();
  const std::string file = b.build();
  const Checkpoint whole = load(file);
  verify_packed(*whole.packed, {});
  const std::size_t head_end = static_cast<std::size_t>(kPackedHeaderBytes) + packed_head(b.source, b.matrices).size();
  int missed = 0;
  for (std::size_t i = 12; i < file.size(); ++i) {
    if (i >= head_end && i < whole.packed->payload_offset) continue;  // the gap, which nothing reads
    std::string damaged = file;
    damaged[i] ^= 1;
    try {
      const Checkpoint c = load(damaged);
      if (i < head_end) ++missed;
      verify_packed(*c.packed, {});
      ++missed;
    } catch (const Error& e) {
      if (e.code() != Code::format) ++missed;
    }
  }
  CHECK(missed == 0);
  std::string damaged = file;
  damaged.back() ^= 1;
  expect_error(Code::format, {"\"b.weight\"", "checksum"}, [&] { verify_packed(*load(damaged).packed, {}); });
}

TEST_CASE("header fields that lie are refused by name though their checksum fits") {
  refused_header(Code::format, {"file_bytes"}, kFileBytes, std::uint64_t{1});
  for (const std::uint64_t n : {kTop, kSign, kTop - 127, std::uint64_t{1} << 40})
    refused_header(Code::limit, {"head_bytes"}, kHeadBytes, n);
  refused_header(Code::format, {"payload_offset"}, kHeadBytes, std::uint64_t{1} << 27);  // more than the file has
  for (const std::uint64_t n : {std::uint64_t{0}, std::uint64_t{4097}, kTop, kSign})
    refused_header(Code::format, {"payload_offset"}, kPayloadOffset, n);
  for (const std::uint64_t n : {std::uint64_t{0}, kTop, kTop - 4095, kSign})
    refused_header(Code::format, {"payload_bytes"}, kPayloadBytes, n);
  refused_header(Code::format, {"head_checksum"}, kHeadChecksum, std::uint64_t{1});
  refused_header(Code::format, {"source_kind"}, kSourceKind, std::uint32_t{2});
  refused_header(Code::format, {"reserved"}, kReserved, std::uint32_t{1});
  refused_header(Code::format, {"reserved"}, std::size_t{112}, std::uint64_t{1} << 63);
  // The key-values of a GGUF taken for files of a folder.
  refused_header(Code::format, {"\"general.architecture\""}, kSourceKind, std::uint32_t{1});
}

TEST_CASE("tensor entries that lie are refused by name") {
  const std::string a = shown("a.weight") + shown("Q8_0");  // then u32 rank, i64 20, i64 64
  refused_head(Code::format, {"\"a.weight\"", "5 dimensions"}, a, 0, std::uint32_t{5});
  refused_head(Code::format, {"\"a.weight\"", "dimension -1"}, a, 4, std::int64_t{-1});
  refused_head(Code::format, {"\"a.weight\"", "multiple of 32"}, a, 12, std::int64_t{65});
  refused_head(Code::format, {"\"a.weight\""}, a, 4, std::int64_t{1} << 62);
  refused_head(Code::format, {"\"norm.weight\""}, shown("norm.weight") + shown("F32"), 4, std::int64_t{1} << 40);
  refused_head(Code::unsupported, {"\"a.weight\"", "type"}, shown("a.weight"), 8, 'X');
  refused(Code::format, {"tensor name"},
          [](PackedBuilder& b) { b.edit_head = [](std::string& h) { h[h.find("a.weight")] = '\xFF'; }; });
  refused(Code::format, {"\"b.weight\"", "twice"},
          [](PackedBuilder& b) { b.edit_head = [](std::string& h) { h[h.find("a.weight")] = 'b'; }; });
}

TEST_CASE("counts beyond the cap or the head are refused before memory is taken") {
  const std::string tensors = bytes_of<std::uint64_t>(3) + shown("a.weight");
  for (const std::uint64_t n : {kTop, kSign, std::uint64_t{1} << 21})
    refused(Code::limit, {"n_tensors"},
            [&](PackedBuilder& b) { b.edit_head = [=](std::string& h) { put_at(h, h.find(tensors), n); }; });
  refused(Code::format, {"n_tensors"},
          [&](PackedBuilder& b) { b.edit_head = [=](std::string& h) { put_at(h, h.find(tensors), std::uint64_t{1} << 20); }; });
  const std::string matrices = bytes_of<std::uint64_t>(2) + shown("a.weight");
  for (const std::uint64_t n : {kTop, kSign})
    refused(Code::limit, {"n_matrices"},
            [&](PackedBuilder& b) { b.edit_head = [=](std::string& h) { put_at(h, h.rfind(matrices), n); }; });
  refused(Code::format, {"n_matrices"},
          [&](PackedBuilder& b) { b.edit_head = [=](std::string& h) { put_at(h, h.rfind(matrices), std::uint64_t{1} << 20); }; });
  refused(Code::limit, {"n_kv"}, [](PackedBuilder& b) { b.edit_head = [](std::string& h) { put_at(h, 0, kTop); }; });
  refused(Code::format, {"n_kv"},
          [](PackedBuilder& b) { b.edit_head = [](std::string& h) { put_at(h, 0, std::uint64_t{60000}); }; });
}

TEST_CASE("matrix entries that lie are refused by name") {
  const std::string b = shown("b.weight") + shown("F32") + shown("n16k4");  // i64 count rows cols, u64 stride scales offset sum
  for (const std::size_t at : {std::size_t{0}, std::size_t{8}, std::size_t{16}}) {
    refused_head(Code::format, {"\"b.weight\"", "dimension 0"}, b, at, std::int64_t{0});
    refused_head(Code::format, {"\"b.weight\"", "dimension -1"}, b, at, std::int64_t{-1});
  }
  for (const std::uint64_t stride : {std::uint64_t{0}, std::uint64_t{63}, kTop})
    refused_head(Code::format, {"\"b.weight\"", "stride"}, b, 24, stride);
  refused_head(Code::format, {"\"b.weight\"", "within the file"}, b, 24, std::uint64_t{1} << 40);
  refused_head(Code::format, {"\"b.weight\"", "within the file"}, b, 24, kTop - 63 - (std::uint64_t{1} << 20));
  refused_head(Code::format, {"\"b.weight\""}, b, 0, std::int64_t{1} << 62);  // count * stride wraps
  refused_head(Code::format, {"\"b.weight\""}, b, 32, (kTop / 4) + 2);        // scales * 4 wraps to 4
  refused_head(Code::format, {"payload_bytes"}, b, 24, std::uint64_t{256});   // bytes that no matrix has
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{64}, kTop - 63})
    refused_head(Code::format, {"\"b.weight\"", "offset"}, b, 40, offset);
  refused(Code::format, {"head_bytes"}, [](PackedBuilder& p) { p.edit_head = [](std::string& h) { h += '\0'; }; });
  refused(Code::format, {}, [](PackedBuilder& p) { p.edit_head = [](std::string& h) { h.pop_back(); }; });
}

TEST_CASE("verification reports bytes and can be cancelled") {
  PackedBuilder b = valid();
  const Checkpoint c = load(b.build());
  std::uint64_t last = 0;
  const Progress count = [&](Stage stage, std::uint64_t done, std::uint64_t total) {
    CHECK(stage == Stage::read_weights);
    CHECK(total == c.packed->payload_bytes);
    last = done;
    return true;
  };
  verify_packed(*c.packed, Watch(&count, nullptr));
  CHECK(last == c.packed->payload_bytes);
  const Progress stop = [](Stage, std::uint64_t, std::uint64_t) { return false; };
  expect_error(Code::cancelled, {}, [&] { verify_packed(*c.packed, Watch(&stop, nullptr)); });
}
