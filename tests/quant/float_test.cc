// Scalar conversions of half, bfloat16, E4M3FN and E8M0.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "dsv31/quant.h"
#include "tests/catch.h"

using namespace dsv31;

namespace {
std::uint32_t bits(float v) { return std::bit_cast<std::uint32_t>(v); }
float from(std::uint32_t v) { return std::bit_cast<float>(v); }
constexpr float kInf = std::numeric_limits<float>::infinity();
}  // namespace

TEST_CASE("all 65,536 halves survive the way to float and back, NaN payloads included") {
  int wrong = 0;
  for (std::uint32_t h = 0; h < 65536; ++h) wrong += f32_to_f16(f16_to_f32(static_cast<std::uint16_t>(h))) != h;
  CHECK(wrong == 0);
}

TEST_CASE("a half has the value sign * mantissa * 2^exponent") {
  int wrong = 0;
  for (int h = 0; h < 0x7C00; ++h) {
    const int e = h >> 10, m = h & 1023;
    const double value = e == 0 ? std::ldexp(m, -24) : std::ldexp(1024 + m, e - 25);
    wrong += double{f16_to_f32(static_cast<std::uint16_t>(h))} != value;
    wrong += double{f16_to_f32(static_cast<std::uint16_t>(h | 0x8000))} != -value;
  }
  CHECK(wrong == 0);
  CHECK(f16_to_f32(0x7C00) == kInf);
  CHECK(f16_to_f32(0xFC00) == -kInf);
  CHECK(std::isnan(f16_to_f32(0x7C01)));
  CHECK(bits(f16_to_f32(0x8000)) == 0x80000000u);
}

TEST_CASE("float to half rounds to nearest, ties to even") {
  // Between two neighbouring halves: just below the middle goes down, just above goes up, the middle to the even one.
  int wrong = 0;
  for (std::uint32_t h = 0; h < 0x7BFF; ++h) {
    const double low = double{f16_to_f32(static_cast<std::uint16_t>(h))},
                 high = double{f16_to_f32(static_cast<std::uint16_t>(h + 1))};
    const auto middle = static_cast<float>((low + high) / 2);
    wrong += f32_to_f16(middle) != h + (h & 1);
    wrong += f32_to_f16(std::nextafter(middle, 0.0f)) != h;
    wrong += f32_to_f16(std::nextafter(middle, kInf)) != h + 1;
  }
  CHECK(wrong == 0);
  CHECK(f32_to_f16(65519.996f) == 0x7BFF);
  CHECK(f32_to_f16(65520.0f) == 0x7C00);
  CHECK(f32_to_f16(-1e30f) == 0xFC00);
  CHECK(f32_to_f16(from(0x33000000)) == 0);  // 2^-25: tie between 0 and the smallest subnormal
  CHECK(f32_to_f16(from(0x33000001)) == 1);
  CHECK(f32_to_f16(from(0xB2FFFFFF)) == 0x8000);
  CHECK(f32_to_f16(from(0x7F800001)) == 0x7E00);  // a NaN whose payload does not fit stays a NaN
}

TEST_CASE("float to bfloat16 rounds to nearest, ties to even") {
  CHECK(f32_to_bf16(from(0x3F808000)) == 0x3F80);  // tie, even below
  CHECK(f32_to_bf16(from(0x3F818000)) == 0x3F82);  // tie, even above
  CHECK(f32_to_bf16(from(0x3F808001)) == 0x3F81);
  CHECK(f32_to_bf16(from(0x3F807FFF)) == 0x3F80);
  CHECK(f32_to_bf16(from(0xBF818000)) == 0xBF82);
  CHECK(f32_to_bf16(from(0x7F7FFFFF)) == 0x7F80);  // the largest float rounds to infinity
  CHECK(f32_to_bf16(from(0x00008000)) == 0x0000);
  CHECK(f32_to_bf16(from(0x00018000)) == 0x0002);
  CHECK(f32_to_bf16(kInf) == 0x7F80);
  CHECK(f32_to_bf16(from(0x7F800001)) == 0x7FC0);
  int wrong = 0;
  for (std::uint32_t h = 0; h < 65536; ++h) {
    const bool signalling = (h & 0x7F80) == 0x7F80 && (h & 0x7F) != 0 && (h & 0x40) == 0;
    if (!signalling) wrong += f32_to_bf16(bf16_to_f32(static_cast<std::uint16_t>(h))) != h;
  }
  CHECK(wrong == 0);
}

TEST_CASE("all 256 codes of E4M3FN have their value and come back") {
  int wrong = 0;
  for (int code = 0; code < 127; ++code) {
    const int e = code >> 3, m = code & 7;
    const double value = e == 0 ? std::ldexp(m, -9) : std::ldexp(8 + m, e - 10);
    const float positive = e4m3_to_f32(static_cast<std::uint8_t>(code)),
                negative = e4m3_to_f32(static_cast<std::uint8_t>(code | 128));
    wrong += double{positive} != value || double{negative} != -value || std::signbit(negative) == 0;
    wrong += f32_to_e4m3(positive) != code || f32_to_e4m3(negative) != (code | 128);
  }
  CHECK(wrong == 0);
  CHECK(std::isnan(e4m3_to_f32(0x7F)));
  CHECK(std::isnan(e4m3_to_f32(0xFF)));
  CHECK(e4m3_to_f32(0x38) == 1.0f);
  CHECK(e4m3_to_f32(0x3F) == 1.875f);
  CHECK(e4m3_to_f32(0x01) == 0.001953125f);
  CHECK(e4m3_to_f32(0x7E) == 448.0f);
}

TEST_CASE("float to E4M3FN rounds to nearest even, saturates, and keeps NaN") {
  int wrong = 0;
  for (int code = 0; code < 126; ++code) {
    const auto middle = (e4m3_to_f32(static_cast<std::uint8_t>(code)) + e4m3_to_f32(static_cast<std::uint8_t>(code + 1))) / 2;
    wrong += f32_to_e4m3(middle) != code + (code & 1);
    wrong += f32_to_e4m3(std::nextafter(middle, 0.0f)) != code;
    wrong += f32_to_e4m3(std::nextafter(middle, kInf)) != code + 1;
  }
  CHECK(wrong == 0);
  CHECK(f32_to_e4m3(449.0f) == 0x7E);
  CHECK(f32_to_e4m3(1e30f) == 0x7E);
  CHECK(f32_to_e4m3(-kInf) == 0xFE);
  CHECK(f32_to_e4m3(std::numeric_limits<float>::quiet_NaN()) == 0x7F);
  CHECK(f32_to_e4m3(from(0xFFC00000)) == 0xFF);
  CHECK(f32_to_e4m3(-0.0f) == 0x80);
}

TEST_CASE("E8M0 is 2^(e - 127), 255 is NaN") {
  CHECK(e8m0_to_f32(127) == 1.0f);
  CHECK(e8m0_to_f32(0) == std::ldexp(1.0f, -127));
  CHECK(e8m0_to_f32(1) == std::ldexp(1.0f, -126));
  CHECK(e8m0_to_f32(254) == std::ldexp(1.0f, 127));
  CHECK(std::isnan(e8m0_to_f32(255)));
}

TEST_CASE("E5M2 is the upper byte of a half") {
  const std::byte src[4] = {std::byte{0x3C}, std::byte{0x7B}, std::byte{0x81}, std::byte{0x7C}};
  float y[4];
  format(DType::f8_e5m2).decode(src, 4, y);
  CHECK(y[0] == 1.0f);
  CHECK(y[1] == 57344.0f);
  CHECK(y[2] == -std::ldexp(1.0f, -16));
  CHECK(y[3] == kInf);
}
