// 200,000 tensors: what opening costs is counted, and doubles when the file doubles.
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

std::string name_of(std::size_t i) {
  return "model.layers." + std::to_string(i % 61) + ".mlp.experts." + std::to_string(i / 61) + ".down_proj.weight";
}

struct Cost {
  OpenCount count;
  Allocations memory;
};

Cost cost_of(const std::string& file, std::size_t tensors) {
  const auto reader = reader_of(file);
  const AllocationMeter meter;
  const Checkpoint c = open_checkpoint(reader);
  const Allocations memory = meter.used();
  REQUIRE(c.tensors.size() == tensors);
  REQUIRE(c.find(name_of(tensors - 1)) == &c.tensors.back());
  REQUIRE(c.find(name_of(tensors)) == nullptr);
  return {c.count, memory};
}

void check_doubles(const Cost& half, const Cost& whole) {
  const auto at_most = [](std::uint64_t a, std::uint64_t b) {
    INFO(a << " then " << b);
    CHECK(static_cast<double>(b) <= 2.2 * static_cast<double>(a) + 64);
  };
  at_most(half.count.reads, whole.count.reads);
  at_most(half.count.bytes_read, whole.count.bytes_read);
  at_most(half.count.probes, whole.count.probes);
  at_most(half.memory.calls, whole.memory.calls);
  at_most(half.memory.bytes, whole.memory.bytes);
}

std::string gguf_of(std::size_t n) {
  GgufBuilder b;
  b.alignment = 1;
  b.u32("general.alignment", 1);
  for (std::size_t i = 0; i < n; ++i) b.tensor(name_of(i), DType::i8, Shape(1), "x");
  return b.build();
}

std::string safetensors_of(std::size_t n, bool shuffled = false) {
  std::string header = "{", data(n, 'x');
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t at = shuffled ? i * 7919 % n : i;
    header.append(i == 0 ? "\"" : ",\"").append(name_of(i)).append(R"(":{"dtype":"U8","shape":[1],"data_offsets":[)");
    header.append(std::to_string(at)).append(",").append(std::to_string(at + 1)).append("]}");
  }
  return safetensors_file(header.append("}"), data);
}

}  // namespace

TEST_CASE("200,000 tensors of a GGUF file cost twice what 100,000 cost") {
  const Cost half = cost_of(gguf_of(100'000), 100'000), whole = cost_of(gguf_of(200'000), 200'000);
  check_doubles(half, whole);
  CHECK(whole.count.probes <= 4 * 200'000);
  CHECK(whole.memory.calls <= 2 * 200'000 + 100);
}

TEST_CASE("S07 200,000 and 400,000 safetensors entries cost twice what half of them cost") {
  const Cost n100 = cost_of(safetensors_of(100'000), 100'000), n200 = cost_of(safetensors_of(200'000), 200'000),
             n400 = cost_of(safetensors_of(400'000), 400'000);
  check_doubles(n100, n200);
  check_doubles(n200, n400);
  CHECK(n400.count.probes <= 4 * 400'000);
}

TEST_CASE("S07 entries in any order of their ranges load, above the cap they are refused") {
  const std::string file = safetensors_of(100'000, true);
  CHECK(cost_of(file, 100'000).count.probes <= 4 * 100'000);
  OpenOptions options;
  options.limits.max_tensors = 100'000;
  CHECK(open_checkpoint(reader_of(file), options).tensors.size() == 100'000);
  options.limits.max_tensors = 99'999;
  expect_error(Code::limit, {"tensors", "99999"}, [&] { open_checkpoint(reader_of(file), options); });
  GgufBuilder b;
  b.n_tensors = 100'000;
  expect_error(Code::limit, {"n_tensors", "99999"}, [&] { open_checkpoint(reader_of(b.build()), options); });
}
