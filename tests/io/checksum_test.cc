// Values of the xxhash package 3.x for Python (xxh64, seed 0).
#include "lib/io/checksum.h"

#include <vector>

#include "tests/catch.h"

using namespace dsv31::io;

namespace {

std::vector<unsigned char> pattern(std::size_t n) {
  std::vector<unsigned char> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<unsigned char>(i * i * 7 + i);
  return out;
}

}  // namespace

TEST_CASE("the checksum is XXH64 at every kind of tail") {
  struct {
    std::size_t n;
    std::uint64_t value;
  } const known[] = {{0, 0xef46db3751d8e999u},   {1, 0xe934a84adb052768u},  {3, 0x0a8b0eaaa44d36dcu},  {4, 0xa52c40dc1e458cb4u},
                     {7, 0xa327711b1bc04318u},   {8, 0x7966fb2834796e77u},  {31, 0xbdb87f28fde1ec91u}, {32, 0x70e7f6563e61b260u},
                     {33, 0x9dd01335c51ac88fu},  {63, 0x6a3ef85d3e6d755eu}, {64, 0xfe8083554c30b401u}, {100, 0xd52ddaaf21127aa9u},
                     {1000, 0xed0b042ef7c8fe40u}};
  const auto bytes = pattern(1000);
  for (const auto& k : known) CHECK(checksum(bytes.data(), k.n) == k.value);
  CHECK(checksum("abc", 3) == 0x44bc2cf5ad770999u);
  CHECK(checksum_text(0x0a8b0eaaa44d36dcu) == "0a8b0eaaa44d36dc");
}

TEST_CASE("a checksum does not depend on the pieces it was given") {
  const auto bytes = pattern(300);
  const std::uint64_t want = checksum(bytes.data(), bytes.size());
  for (std::size_t step = 1; step <= 70; ++step) {
    Checksum c;
    for (std::size_t i = 0; i < bytes.size(); i += step) c.add(bytes.data() + i, std::min(step, bytes.size() - i));
    CHECK(c.value() == want);
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto flipped = bytes;
    flipped[i] ^= 1;
    CHECK(checksum(flipped.data(), flipped.size()) != want);
  }
}
