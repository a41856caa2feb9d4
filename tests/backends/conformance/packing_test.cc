// Packing of every weight format by every backend that packs it: a bijection, hardly larger than its source, and the same bytes
// for ever: a packed file holds them.
#include <map>

#include "dsv31/backend.h"
#include "dsv31/error.h"
#include "dsv31/quant.h"
#include "lib/io/checksum.h"
#include "lib/io/packed.h"
#include "tests/catch.h"

using namespace dsv31;

namespace {

std::vector<std::byte> pattern(std::size_t n) {
  std::vector<std::byte> out(n);
  std::uint64_t x = 0x9E3779B97F4A7C15u;
  for (std::byte& b : out) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    b = static_cast<std::byte>(x & 255);
  }
  return out;
}

bool packs(const Backend& b, const MatrixDesc& d) {
  try {
    return b.packed_bytes(d) > 0;
  } catch (const Error& e) {
    if (e.code() != Code::unsupported) throw;
    return false;
  }
}

std::vector<DType> weight_types() {
  std::vector<DType> out;
  for (const FormatInfo& f : formats())
    if (f.weight) out.push_back(f.type);
  return out;
}

}  // namespace

TEST_CASE("unpack(pack(x)) is x for every weight format, backend and number of rows") {
  for (const auto& backend : builtin_backends("").list)
    for (const DType type : weight_types())
      for (const std::int64_t rows : {1, 15, 16, 17, 64, 70}) {
        INFO(backend->name() << " " << format(type).name << " " << rows);
        const std::int64_t cols = 3 * format(type).block;
        const MatrixDesc d{"w", type, 1, rows, cols};
        if (!packs(*backend, d)) continue;
        const auto src = pattern(static_cast<std::size_t>(format_bytes(type, rows * cols)));
        std::vector<std::byte> packed(backend->packed_bytes(d)), back(src.size());
        backend->pack(d, 0, rows, src.data(), packed.data());
        backend->unpack(d, 0, rows, packed.data(), back.data());
        CHECK(src == back);
      }
}

TEST_CASE("packed over source is at most 1.03 for every weight format") {
  for (const auto& backend : builtin_backends("").list)
    for (const DType type : weight_types())
      for (const std::int64_t cols : {512, 7168}) {
        const MatrixDesc d{"w", type, 1, 576, cols};
        if (!packs(*backend, d)) continue;
        INFO(backend->name() << " " << format(type).name);
        CHECK(static_cast<double>(backend->packed_bytes(d)) <= 1.03 * static_cast<double>(format_bytes(type, 576 * cols)));
      }
}

TEST_CASE("the bytes of layout n16k4 are those of packing 2, for every weight format and instruction set") {
  static_assert(io::kPackingAbi == 2, "a new packing has new bytes here");
  const std::map<std::string_view, std::uint64_t> recorded{
      {"F32", 0x512f0405e7bb80f5u},     {"F16", 0x5692be5430b87560u},   {"BF16", 0x5692be5430b87560u},
      {"F8_E4M3", 0xd006de8cbd062e57u}, {"Q4_0", 0x6bc2c661389cc900u},  {"Q4_1", 0xd5ef2fff07586a3cu},
      {"Q5_0", 0x0b17ca9729e6f9e1u},    {"Q5_1", 0x950b52d086d94d9cu},  {"Q8_0", 0x8c14c396f3d3bb98u},
      {"Q2_K", 0xfdfd3cf1fb39b090u},    {"Q3_K", 0x84f009372c0bbc80u},  {"Q4_K", 0xd4b67a363bdcd5b5u},
      {"Q5_K", 0x5ba7a272f3712f63u},    {"Q6_K", 0xf760a07dd5c11497u},  {"IQ4_NL", 0x6bc2c661389cc900u},
      {"IQ4_XS", 0x88dcdd8a73b81a6eu},  {"MXFP4", 0x5cfba9e7e154a363u},
  };
  int isas = 0;
  for (const char* isa : {"generic", "avx2", "avx512", "amx"}) {
    BuiltinBackends built;
    try {
      built = builtin_backends(isa);
    } catch (const Error& e) {
      if (e.code() != Code::unsupported) throw;
      continue;
    }
    ++isas;
    for (const DType type : weight_types()) {
      const MatrixDesc d{"w", type, 1, 37, 2 * format(type).block};
      const auto src = pattern(static_cast<std::size_t>(format_bytes(type, d.rows * d.cols)));
      int packers = 0;
      for (const auto& backend : built.list) {
        if (backend->layout() != "n16k4" || !packs(*backend, d)) continue;
        ++packers;
        std::vector<std::byte> packed(backend->packed_bytes(d));
        backend->pack(d, 0, d.rows, src.data(), packed.data());
        INFO(isa << " " << backend->name() << " {\"" << format(type).name << "\", 0x"
                 << io::checksum_text(io::checksum(packed.data(), packed.size())) << "u},");
        const auto want = recorded.find(format(type).name);
        CHECK((want != recorded.end() && io::checksum(packed.data(), packed.size()) == want->second));
      }
      INFO(format(type).name);
      CHECK((packers > 0) == (type != DType::f8_e5m2));  // which the reference alone reads
    }
  }
  CHECK(isas > 0);
}

TEST_CASE("in the default arithmetic every weight format has a product of its own that the plan names") {
  for (const DType type : weight_types()) {
    if (type == DType::f8_e5m2) continue;
    INFO(format(type).name);
    const MatrixDesc d{"w", type, 1, 64, 512};
    Graph graph;
    graph.values = {{.width = 512}, {.width = 64}};
    graph.matrices = {d};
    graph.ops = {Linear{.x = 0, .parts = {{.weight = 0, .out = 1}}}};
    const BuiltinBackends built = builtin_backends("");
    const Backend* first = nullptr;
    for (const auto& b : built.list)
      if (first == nullptr && b->supports(graph.ops[0], graph, {})) first = b.get();
    REQUIRE(first != nullptr);
    CHECK(first->name() != "reference");
    const PackedMatrix m{.desc = d, .stride = first->packed_bytes(d)};
    const auto kernel = [&](Numerics numerics) {
      return first->prepare(graph.ops[0], {.graph = &graph, .matrices = &m, .numerics = numerics})->kernel();
    };
    const std::string fast = kernel({});
    INFO(fast);
    CHECK(fast.find(format(type).name) != fast.npos);
    CHECK(fast.find("blocks*f32") == fast.npos);  // strips decoded to float32, which `exact` asks for
    if (format(type).block > 1) CHECK(kernel({.exact = true}).find("blocks*f32") != std::string::npos);
  }
}
