// Decoders against values computed by gguf-py: every block of a fixed pattern spelled out, and a hash over 64 random blocks.
#include <bit>
#include <cstdint>
#include <vector>

#include "dsv31/quant.h"
#include "tests/catch.h"

using namespace dsv31;

namespace {

struct Golden {
  DType type;
  std::vector<int> ones, halves;  // offsets of half-precision fields set to 1.0 and 0.5
  double y0, y1, y2, y3, y16, last, sum, weighted;
};

// Block bytes are b[i] = (37 i + 11) mod 256 before the scales are set; MXFP4 has b[0] = 127.
const std::vector<Golden> kGolden = {
    {DType::q4_0, {0}, {}, -3, 2, 7, -4, -3, 0, -21, -497},
    {DType::q4_1, {0}, {2}, 15.5, 4.5, 9.5, 14.5, 9.5, 12.5, 261, 3986},
    {DType::q5_0, {0}, {}, 9, -2, 3, -8, 14, 1, 15, 97},
    {DType::q5_1, {0}, {2}, 19.5, 24.5, 29.5, 18.5, 19.5, 5.5, 521, 7644},
    {DType::q8_0, {0}, {}, 85, 122, -97, -60, -91, -48, -176, -7904},
    {DType::q2_k, {80}, {82}, 33, 0, 11, 22, -1.5, 4.5, 2059, 241071},
    {DType::q3_k, {108}, {}, 81, -108, 27, -54, -96, 42, 958, 176187},
    {DType::q4_k, {0}, {2}, 315.5, -25.5, 129.5, 284.5, 315.5, 48.5, 54440, 7518400},
    {DType::q5_k, {0}, {2}, 811.5, -25.5, 625.5, 284.5, 811.5, 108.5, 116216, 15911232},
    {DType::q6_k, {208}, {}, -1431, 1696, 583, -530, -432, -60, 4612, 779808},
    {DType::iq4_nl, {0}, {}, -35, 25, 113, -49, -35, 1, -257, -6662},
    {DType::iq4_xs, {0}, {}, 65, -1, -69, 83, 65, -16, -11005, -2080129},
    {DType::mxfp4, {}, {}, 0, 3, -1, -6, 1.5, 3, 12.5, 306.5},
};

}  // namespace

TEST_CASE("a patterned block decodes to the values of gguf-py") {
  for (const Golden& g : kGolden) {
    const FormatInfo& f = format(g.type);
    INFO(f.name);
    std::vector<std::byte> block(static_cast<std::size_t>(f.bytes));
    for (std::size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::byte>((37 * i + 11) & 255);
    for (int at : g.ones)
      block[static_cast<std::size_t>(at)] = std::byte{0}, block[static_cast<std::size_t>(at) + 1] = std::byte{0x3C};
    for (int at : g.halves)
      block[static_cast<std::size_t>(at)] = std::byte{0}, block[static_cast<std::size_t>(at) + 1] = std::byte{0x38};
    if (g.type == DType::mxfp4) block[0] = std::byte{127};
    std::vector<float> y(static_cast<std::size_t>(f.block));
    f.decode(block.data(), 1, y.data());
    double sum = 0, weighted = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += double{y[i]}, weighted += static_cast<double>(i) * double{y[i]};
    CHECK(double{y[0]} == g.y0);
    CHECK(double{y[1]} == g.y1);
    CHECK(double{y[2]} == g.y2);
    CHECK(double{y[3]} == g.y3);
    CHECK(double{y[16]} == g.y16);
    CHECK(double{y.back()} == g.last);
    CHECK(sum == g.sum);
    CHECK(weighted == g.weighted);
  }
}

TEST_CASE("random blocks decode to the bits of gguf-py") {
  struct Recorded {
    DType type;
    std::uint64_t hash;
  };
  // Printed by record_random.py, which says how the bytes come about.
  const std::vector<Recorded> recorded = {
      {DType::q4_0, 0x1465298A76D7625Cu},  {DType::q4_1, 0x8E2225EC8F8532A4u},   {DType::q5_0, 0x8391AC8E47B4F6EAu},
      {DType::q5_1, 0x78D10149198699A2u},  {DType::q8_0, 0x346C26EB3569E683u},   {DType::q2_k, 0x6B9B9C43E3E1BF47u},
      {DType::q3_k, 0x5AA28E72761E523Fu},  {DType::q4_k, 0x1C980C4E70DFD836u},   {DType::q5_k, 0x15FDEE48573D6C90u},
      {DType::q6_k, 0x87675CB35A3BE50Eu},  {DType::iq4_nl, 0xCF31E6AD2BC037FAu}, {DType::iq4_xs, 0x906107BD1C0CFD0Fu},
      {DType::mxfp4, 0xA83E94D7F64249DCu}, {DType::f16, 0xE7C87B8400253CB4u},    {DType::bf16, 0x8E602F7EC4A27303u},
  };
  for (const Recorded& r : recorded) {
    const FormatInfo& f = format(r.type);
    INFO(f.name);
    std::vector<int> scales;
    for (const Golden& g : kGolden)
      if (g.type == r.type) {
        scales = g.ones;
        scales.insert(scales.end(), g.halves.begin(), g.halves.end());
      }
    if (f.block == 1) scales = {0};
    const auto size = static_cast<std::size_t>(f.bytes);
    std::vector<std::byte> data(64 * size);
    std::uint32_t x = 1;
    for (std::byte& b : data) b = static_cast<std::byte>((x = x * 1664525u + 1013904223u) >> 24);
    for (std::size_t block = 0; block < 64; ++block)
      for (int at : scales) data[block * size + static_cast<std::size_t>(at) + 1] &= std::byte{0xBF};
    std::vector<float> y(static_cast<std::size_t>(64 * f.block));
    f.decode(data.data(), 64, y.data());
    std::uint64_t hash = 0xCBF29CE484222325u;
    for (float v : y)
      for (int shift = 0; shift < 32; shift += 8)
        hash = (hash ^ (std::bit_cast<std::uint32_t>(v) >> shift & 255)) * 0x100000001B3u;
    CHECK(hash == r.hash);
  }
}
