// Reference encoders, on values that can be checked by hand.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "dsv31/quant.h"
#include "tests/catch.h"

using namespace dsv31;

namespace {
std::vector<std::byte> encode(DType type, const std::vector<float>& x) {
  const FormatInfo& f = format(type);
  std::vector<std::byte> out(static_cast<std::size_t>(format_bytes(type, static_cast<std::int64_t>(x.size()))));
  f.encode(x.data(), static_cast<std::int64_t>(x.size()) / f.block, out.data());
  return out;
}
std::vector<float> round_trip(DType type, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  format(type).decode(encode(type, x).data(), static_cast<std::int64_t>(x.size()) / format(type).block, y.data());
  return y;
}
}  // namespace

TEST_CASE("values on the grid of a format are kept exactly") {
  std::vector<float> q8(32), q4(32), q4m(32), q5(32), q5m(32);
  for (int i = 0; i < 32; ++i) {
    const auto n = static_cast<std::size_t>(i);
    q8[n] = static_cast<float>(i * 8 - 127) * 0.25f;
    q4[n] = static_cast<float>(i % 16 - 8) * 0.5f;
    q4m[n] = static_cast<float>(i % 16) * 0.5f - 3.0f;
    q5[n] = static_cast<float>(i - 16) * 0.125f;
    q5m[n] = static_cast<float>(i) * 0.25f + 1.0f;
  }
  CHECK(round_trip(DType::q8_0, q8) == q8);
  CHECK(round_trip(DType::q4_0, q4) == q4);
  CHECK(round_trip(DType::q4_1, q4m) == q4m);
  CHECK(round_trip(DType::q5_0, q5) == q5);
  CHECK(round_trip(DType::q5_1, q5m) == q5m);
}

TEST_CASE("the scale takes its sign from the value of largest magnitude, the first of equals") {
  std::vector<float> x(32, 0.0f);
  x[3] = 4.0f;
  x[9] = -4.0f;
  const std::vector<std::byte> q4 = encode(DType::q4_0, x);  // d = 4 / -8 = -0.5 = 0xB800
  CHECK(q4[0] == std::byte{0x00});
  CHECK(q4[1] == std::byte{0xB8});
  CHECK(q4[2] == std::byte{0x88});                           // zero is 8
  CHECK(q4[2 + 3] == std::byte{0x80});                       // 4 / -0.5 + 8 = 0
  CHECK(q4[2 + 9] == std::byte{0x8F});                       // -4 / -0.5 + 8 = 16, cut to 15
  const std::vector<std::byte> q5 = encode(DType::q5_0, x);  // d = 4 / -16 = -0.25 = 0xB400
  CHECK(q5[1] == std::byte{0xB4});
  CHECK(q5[2] == std::byte{0xF7});  // the fifth bits: all but element 3, as zero is 16
  CHECK(q5[6 + 9] == std::byte{0x0F});
}

TEST_CASE("Q8_0 rounds half away from zero") {
  std::vector<float> x(32, 0.0f);
  x[0] = 127.0f;  // d = 1
  x[1] = 2.5f;
  x[2] = -2.5f;
  x[3] = 0.49f;
  const std::vector<float> y = round_trip(DType::q8_0, x);
  CHECK(y[0] == 127.0f);
  CHECK(y[1] == 3.0f);
  CHECK(y[2] == -3.0f);
  CHECK(y[3] == 0.0f);
}

TEST_CASE("blocks of zeros and of values that are not finite are encoded without harm") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (DType type : {DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0}) {
    const std::vector<float> zeros(64, 0.0f);
    CHECK(round_trip(type, zeros) == zeros);
    std::vector<float> bad(32, 1.0f);
    bad[5] = nan, bad[6] = inf, bad[7] = -inf;
    CHECK(encode(type, bad).size() == static_cast<std::size_t>(format(type).bytes));
  }
}

TEST_CASE("float formats encode one element a block, any count") {
  for (std::size_t n : {0u, 1u, 3u, 7u, 33u}) {
    std::vector<float> x(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i % 8) - 3.5f;
    for (DType type : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::f8_e4m3}) CHECK(round_trip(type, x) == x);
  }
}
