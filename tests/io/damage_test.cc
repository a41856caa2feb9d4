// Every cut and every flipped bit of small files: an error of ours or a file that loads, never anything else. The sanitizers see
// what a wrong read would do.
#include "lib/io/checkpoint.h"
#include "tests/expect_error.h"
#include "tests/gguf_builder.h"
#include "tests/memory_files.h"
#include "tests/safetensors_builder.h"

using namespace dsv31;
using namespace dsv31::io;
using namespace dsv31::test;

namespace {

GgufBuilder small_gguf() {
  GgufBuilder b;
  b.string("general.architecture", "llama")
      .u32("general.alignment", 32)
      .u32("llama.block_count", 2)
      .f32("llama.eps", 1e-5f)
      .boolean("add_bos", true);
  b.strings("tokens", {"a", "bc", ""}).f32s("scores", {0.5f, 1.5f, 2.5f}).u64("n", 7);
  b.tensor("a.weight", {1.0f, 2.0f, 3.0f}, Shape(3)).tensor("b.weight", DType::q8_0, Shape(2, 32));
  return b;
}

SafetensorsBuilder small_safetensors() {
  SafetensorsBuilder b;
  return b.metadata(R"({"format":"pt"})").tensor("a.weight", {1.0f, 2.0f}, {2}).tensor("b.weight", "BF16", {2, 2}, "01234567");
}

struct Outcome {
  bool loaded = false;
  Code code{};
};

// What came of a file; its tensors, if it loads, lie within it.
Outcome outcome(const std::string& file, std::string_view name) {
  auto folder = std::make_shared<MemoryFolder>();
  folder->files[std::string(name)] = file;
  try {
    const Checkpoint c = open_checkpoint(folder, std::string(name));
    for (const TensorInfo& t : c.tensors) {
      std::string bytes(static_cast<std::size_t>(t.bytes), '\0');
      c.files[t.file]->read_at(t.offset, bytes.data(), bytes.size());  // throws outside the file
      REQUIRE(c.find(t.name) == &t);
    }
    return {true, {}};
  } catch (const Error& e) {
    REQUIRE(std::string_view(e.what()).size() < 512);
    return {false, e.code()};
  }
}

void check_cuts(const std::string& file, std::string_view name, std::size_t shortest_that_loads) {
  for (std::size_t n = 0; n < shortest_that_loads; ++n) {
    INFO("cut at " << n);
    const Outcome o = outcome(file.substr(0, n), name);
    REQUIRE_FALSE(o.loaded);
    REQUIRE(o.code == Code::format);
  }
  for (std::size_t n = shortest_that_loads; n <= file.size(); ++n) REQUIRE(outcome(file.substr(0, n), name).loaded);
}

// Returns how many flips load.
std::size_t check_flips(const std::string& file, std::string_view name, std::size_t header_bytes) {
  std::size_t loads = 0;
  for (std::size_t bit = 0; bit < 8 * header_bytes; ++bit) {
    std::string damaged = file;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    INFO("bit " << bit);
    const Outcome o = outcome(damaged, name);
    loads += o.loaded;
    if (!o.loaded)
      REQUIRE((o.code == Code::format || o.code == Code::unsupported || o.code == Code::limit || o.code == Code::mismatch ||
               o.code == Code::argument));
  }
  return loads;
}

}  // namespace

TEST_CASE("a GGUF file cut at any length is a format error up to its last tensor byte") {
  const std::string file = small_gguf().build();
  check_cuts(file, "m.gguf", file.size() - 28);  // 2 * 34 bytes of the last tensor, padded to 96
}

TEST_CASE("a safetensors file cut at any length is a format error") {
  const std::string file = small_safetensors().build();
  check_cuts(file, "m.safetensors", file.size());
}

TEST_CASE("a GGUF header with any bit flipped is refused or loads with all tensors in the file") {
  const GgufBuilder b = small_gguf();
  const std::size_t header = b.header().size();
  const std::size_t loads = check_flips(b.build(), "m.gguf", header);
  CHECK(loads > 0);           // values of metadata and names may be anything
  CHECK(loads < 8 * header);  // structure may not
}

TEST_CASE("a safetensors header with any bit flipped is refused or loads with all tensors in the file") {
  const SafetensorsBuilder b = small_safetensors();
  const std::size_t header = 8 + b.header().size();
  const std::size_t loads = check_flips(b.build(), "m.safetensors", header);
  CHECK(loads > 0);
  CHECK(loads < 8 * header);
}
