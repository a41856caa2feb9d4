// The encoder of FP8 checkpoints against its own decoder and against a search over all codes.
#include "lib/quant/fp8_blocks.h"

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "dsv31/quant.h"
#include "tests/catch.h"

using namespace dsv31;

namespace {

struct Encoded {
  std::vector<std::byte> codes;
  std::vector<float> scales;
};

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
quant::Fp8Band band(Encoded& e, std::int64_t rows, std::int64_t cols) {
  return {.rows = rows, .cols = cols, .codes = e.codes.data(), .scales = e.scales.data()};
}
Encoded encode(const std::vector<float>& w, std::int64_t rows, std::int64_t cols) {
  Encoded e{std::vector<std::byte>(w.size()), std::vector<float>(size((cols + 127) / 128))};
  quant::encode_fp8(w.data(), band(e, rows, cols));
  return e;
}
std::vector<float> decode(Encoded& e, std::int64_t rows, std::int64_t cols) {
  std::vector<float> w(e.codes.size());
  quant::decode_fp8(band(e, rows, cols), w.data());
  return w;
}
std::vector<std::uint8_t> all_codes() {  // 254: 0x7f and 0xff are no numbers
  std::vector<std::uint8_t> out;
  for (int c = 0; c < 256; ++c)
    if ((c & 0x7f) != 0x7f) out.push_back(static_cast<std::uint8_t>(c));
  return out;
}

}  // namespace

TEST_CASE("FP8 blocks: all codes come back, with every kind of scale") {
  std::mt19937 rng(1);
  std::vector<float> scales;
  for (int e = -100; e <= 100; e += 5) scales.push_back(std::ldexp(1.0f, e));
  for (int i = 0; i < 500; ++i)
    scales.push_back(std::ldexp(1 + static_cast<float>(rng() % (1 << 23)) / (1 << 23), static_cast<int>(rng() % 60) - 40));
  for (float scale : scales) {
    Encoded e{std::vector<std::byte>(254), {scale, scale}};
    const std::vector<std::uint8_t> codes = all_codes();
    for (std::size_t i = 0; i < codes.size(); ++i) e.codes[i] = static_cast<std::byte>(codes[i]);
    e.scales.resize(1);
    const std::vector<float> w = decode(e, 2, 127);  // each row holds half of the codes: one block
    const Encoded again = encode(w, 2, 127);
    INFO("scale " << scale);
    CHECK(again.codes == e.codes);
    // 448 * scale rounds, so the scale may come back as its neighbour; a power of two does not round.
    int exponent = 0;
    if (std::frexp(scale, &exponent) == 0.5f)
      CHECK(again.scales[0] == scale);
    else
      CHECK(std::fabs(again.scales[0] - scale) <= std::nextafter(scale, INFINITY) - scale);
  }
}

TEST_CASE("FP8 blocks: every value gets the nearest code, the even one of two") {
  std::mt19937 rng(2);
  std::normal_distribution<float> normal;
  std::vector<float> w(128 * 130);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = normal(rng) * std::ldexp(1.0f, -static_cast<int>(rng() % 20));
  // The first block has the scale 1, so that ties can be written down: halfway between neighbours, and just beside.
  const std::vector<std::uint8_t> codes = all_codes();
  for (std::int64_t i = 0; i < 128; ++i)
    for (std::int64_t j = 0; j < 128; ++j) {
      float& v = w[size(i * 130 + j)];
      const auto c = static_cast<std::uint8_t>(rng() % 0x7e);
      const float middle = (e4m3_to_f32(c) + e4m3_to_f32(static_cast<std::uint8_t>(c + 1))) / 2;
      const std::uint32_t way = rng() % 4;
      v = way == 0 ? middle : way == 1 ? std::nextafter(middle, 0.0f) : way == 2 ? std::nextafter(middle, 1e9f) : v;
      if (rng() % 2 == 0) v = -v;
    }
  w[0] = 448;
  const Encoded e = encode(w, 128, 130);
  CHECK(e.scales[0] == 1.0f);
  std::size_t ties = 0;
  for (std::int64_t i = 0; i < 128; ++i)
    for (std::int64_t j = 0; j < 130; ++j) {
      const std::size_t at = size(i * 130 + j);
      // Products of a code (4 bits) and a scale (24 bits), and their distances from w, are exact in double where it matters.
      const auto far = [&](std::uint8_t c) {
        return std::fabs(static_cast<double>(e4m3_to_f32(c)) * static_cast<double>(e.scales[size(j / 128)]) -
                         static_cast<double>(w[at]));
      };
      const auto got = std::to_integer<std::uint8_t>(e.codes[at]);
      double nearest = INFINITY;
      for (std::uint8_t c : codes) nearest = std::min(nearest, far(c));
      std::size_t equals = 0;
      for (std::uint8_t c : codes) equals += far(c) == nearest && (c & 0x7f) != 0;
      INFO("row " << i << " column " << j << ": " << w[at]);
      CHECK(far(got) == nearest);
      if (equals == 2) {
        ++ties;
        CHECK((got & 1) == 0);
      }
      if (w[at] != 0) CHECK(std::signbit(e4m3_to_f32(got)) == std::signbit(w[at]));
    }
  CHECK(ties > 1000);
}

TEST_CASE("FP8 blocks: the largest value of each block sets its scale; zeros and ragged edges") {
  std::vector<float> w(3 * 257, 0.0f);
  w[0] = -896;           // block 0: scale 2
  w[257 + 130] = 0.875;  // block 1: scale 1/512
  Encoded e = encode(w, 3, 257);
  CHECK(e.scales == std::vector<float>{2.0f, 1.0f / 512, 1.0f});
  CHECK(e.codes[0] == std::byte{0xfe});
  CHECK(e.codes[257 + 130] == std::byte{0x7e});
  CHECK(decode(e, 3, 257) == w);
  std::vector<float> tiny(4, 0.0f);
  tiny[1] = std::ldexp(1.0f, -140);  // absmax / 448 has no float: the scale stays a normal number
  Encoded t = encode(tiny, 2, 2);
  CHECK(t.scales[0] == std::ldexp(1.0f, -126));
  CHECK(std::isfinite(decode(t, 2, 2)[1]));
}
