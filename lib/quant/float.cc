// Floating-point formats: F64 F32 F16 BF16, the 8-bit E4M3FN and E5M2, and the bare exponent E8M0.
//
// Conversions work on the bits, so neither the rounding mode nor flush-to-zero of the host's threads changes a result.
// Encoding rounds to nearest, ties to even.
#include <cstring>

#include "lib/quant/codecs.h"

namespace dsv31::inline v1 {

namespace {
constexpr std::uint32_t kSign = 0x80000000u, kInfinity = 0x7F800000u;

std::uint32_t bits_of(float v) { return std::bit_cast<std::uint32_t>(v); }
float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// mantissa >> shift, to nearest, ties to even; 1 <= shift <= 31.
std::uint32_t shift_round(std::uint32_t mantissa, int shift) {
  return (mantissa + ((1u << (shift - 1)) - 1) + ((mantissa >> shift) & 1)) >> shift;
}
}  // namespace

float f16_to_f32(std::uint16_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16, body = bits & 0x7FFFu;
  if (body >= 0x7C00) return float_of(sign | kInfinity | (body & 0x3FF) << 13);
  if (body >= 0x0400) return float_of(sign | ((body << 13) + (112u << 23)));
  if (body == 0) return float_of(sign);
  const int lead = 31 - std::countl_zero(body);  // a subnormal half, body * 2^-24, is a normal float
  return float_of(sign | static_cast<std::uint32_t>(lead + 103) << 23 | ((body << (23 - lead)) & 0x7FFFFF));
}

std::uint16_t f32_to_f16(float value) noexcept {
  const std::uint32_t bits = bits_of(value), body = bits & ~kSign;
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  std::uint32_t half;
  if (body > kInfinity) {
    half = 0x7C00 | (body >> 13 & 0x3FF);
    if (half == 0x7C00) half = 0x7E00;  // a NaN stays one
  } else if (body >= 0x477FF000) {      // 65520 and above, half of the last step, round to infinity
    half = 0x7C00;
  } else if (body >= 0x38800000) {
    half = shift_round(body - (112u << 23), 13);
  } else if (body >= 0x33000000) {  // 2^-25: below it everything rounds to zero
    half = shift_round((body & 0x7FFFFF) | 0x800000, 126 - static_cast<int>(body >> 23));
  } else {
    half = 0;
  }
  return static_cast<std::uint16_t>(sign | half);
}

float bf16_to_f32(std::uint16_t bits) noexcept { return float_of(static_cast<std::uint32_t>(bits) << 16); }

std::uint16_t f32_to_bf16(float value) noexcept {
  const std::uint32_t bits = bits_of(value);
  if ((bits & ~kSign) > kInfinity) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>(shift_round(bits & ~kSign, 16) | (bits >> 16 & 0x8000));
}

float e4m3_to_f32(std::uint8_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80) << 24, body = bits & 0x7Fu;
  if (body == 0x7F) return float_of(sign | 0x7FC00000);
  if (body >= 8) return float_of(sign | ((body << 20) + (120u << 23)));
  if (body == 0) return float_of(sign);
  const int lead = 31 - std::countl_zero(body);  // body * 2^-9
  return float_of(sign | static_cast<std::uint32_t>(lead + 118) << 23 | ((body << (23 - lead)) & 0x7FFFFF));
}

std::uint8_t f32_to_e4m3(float value) noexcept {
  const std::uint32_t bits = bits_of(value), body = bits & ~kSign;
  const auto sign = static_cast<std::uint8_t>(bits >> 24 & 0x80);
  std::uint32_t code;
  if (body > kInfinity) {
    code = 0x7F;
  } else if (body >= 0x43E00000) {  // 448 and above, infinity too, saturate: the format has no infinity
    code = 0x7E;
  } else if (body >= 0x3C800000) {  // 2^-6
    code = shift_round(body - (120u << 23), 20);
  } else if (body >= 0x3A800000) {  // 2^-10, half of the smallest step: at or below it everything rounds to zero
    code = shift_round((body & 0x7FFFFF) | 0x800000, 141 - static_cast<int>(body >> 23));
  } else {
    code = 0;
  }
  return static_cast<std::uint8_t>(sign | code);
}

float e8m0_to_f32(std::uint8_t bits) noexcept {
  if (bits == 255) return float_of(0x7FC00000);
  return float_of(bits == 0 ? 0x00400000u : static_cast<std::uint32_t>(bits) << 23);
}

namespace quant {

void decode_f32(const std::byte* src, std::int64_t blocks, float* dst) {
  if (blocks > 0) std::memcpy(dst, src, static_cast<std::size_t>(blocks) * sizeof(float));
}
void decode_f16(const std::byte* src, std::int64_t blocks, float* dst) {
  for (std::int64_t i = 0; i < blocks; ++i) dst[i] = half_at(src, static_cast<std::size_t>(2 * i));
}
void decode_bf16(const std::byte* src, std::int64_t blocks, float* dst) {
  for (std::int64_t i = 0; i < blocks; ++i) dst[i] = bf16_to_f32(u16_at(src, static_cast<std::size_t>(2 * i)));
}
void decode_f64(const std::byte* src, std::int64_t blocks, float* dst) {
  for (std::int64_t i = 0; i < blocks; ++i) {
    double value;
    std::memcpy(&value, src + i * 8, sizeof value);
    dst[i] = static_cast<float>(value);
  }
}
void decode_f8_e4m3(const std::byte* src, std::int64_t blocks, float* dst) {
  for (std::int64_t i = 0; i < blocks; ++i) dst[i] = e4m3_to_f32(std::to_integer<std::uint8_t>(src[i]));
}
void decode_f8_e5m2(const std::byte* src, std::int64_t blocks, float* dst) {  // the upper byte of a half
  for (std::int64_t i = 0; i < blocks; ++i)
    dst[i] = f16_to_f32(static_cast<std::uint16_t>(std::to_integer<std::uint8_t>(src[i]) << 8));
}
void decode_f8_e8m0(const std::byte* src, std::int64_t blocks, float* dst) {
  for (std::int64_t i = 0; i < blocks; ++i) dst[i] = e8m0_to_f32(std::to_integer<std::uint8_t>(src[i]));
}

void encode_f32(const float* src, std::int64_t blocks, std::byte* dst) {
  if (blocks > 0) std::memcpy(dst, src, static_cast<std::size_t>(blocks) * sizeof(float));
}
void encode_f16(const float* src, std::int64_t blocks, std::byte* dst) {
  for (std::int64_t i = 0; i < blocks; ++i) put_u16(dst + 2 * i, f32_to_f16(src[i]));
}
void encode_bf16(const float* src, std::int64_t blocks, std::byte* dst) {
  for (std::int64_t i = 0; i < blocks; ++i) put_u16(dst + 2 * i, f32_to_bf16(src[i]));
}
void encode_f64(const float* src, std::int64_t blocks, std::byte* dst) {
  for (std::int64_t i = 0; i < blocks; ++i) {
    const double value = src[i];
    std::memcpy(dst + i * 8, &value, sizeof value);
  }
}
void encode_f8_e4m3(const float* src, std::int64_t blocks, std::byte* dst) {
  for (std::int64_t i = 0; i < blocks; ++i) dst[i] = static_cast<std::byte>(f32_to_e4m3(src[i]));
}

}  // namespace quant
}  // namespace dsv31::inline v1
