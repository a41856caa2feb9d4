// The decoders and reference encoders of every weight format, one family a file; table.cc gives each its row.
//
// All of them follow FormatInfo: src (blocks * bytes), dst (blocks * block) for decode and the reverse for encode. Formats are
// little-endian and unaligned, so fields are read byte by byte. The float32 operations of a decode stand in the order of ggml's
// dequantize_row_*, which makes the results the same bits.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "dsv31/quant.h"

namespace dsv31::inline v1::quant {

inline std::uint8_t byte_at(const std::byte* p, std::size_t i) { return std::to_integer<std::uint8_t>(p[i]); }
inline std::uint16_t u16_at(const std::byte* p, std::size_t i) {
  return static_cast<std::uint16_t>(byte_at(p, i) | byte_at(p, i + 1) << 8);
}
inline std::uint32_t u32_at(const std::byte* p, std::size_t i) {
  return u16_at(p, i) | static_cast<std::uint32_t>(u16_at(p, i + 2)) << 16;
}
inline float half_at(const std::byte* p, std::size_t i) { return f16_to_f32(u16_at(p, i)); }
inline void put_u16(std::byte* p, std::uint16_t v) {
  p[0] = static_cast<std::byte>(v & 0xFF);
  p[1] = static_cast<std::byte>(v >> 8);
}

// The 16 levels of IQ4_NL and IQ4_XS.
inline constexpr std::int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// E2M1 doubled, so that all levels are integers; the scale of a block is halved instead.
inline constexpr std::int8_t kE2M1Doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

void decode_f32(const std::byte* src, std::int64_t blocks, float* dst);
void decode_f16(const std::byte* src, std::int64_t blocks, float* dst);
void decode_bf16(const std::byte* src, std::int64_t blocks, float* dst);
void decode_f64(const std::byte* src, std::int64_t blocks, float* dst);  // to nearest: the one decode that rounds
void decode_f8_e4m3(const std::byte* src, std::int64_t blocks, float* dst);
void decode_f8_e5m2(const std::byte* src, std::int64_t blocks, float* dst);
void decode_f8_e8m0(const std::byte* src, std::int64_t blocks, float* dst);
void encode_f32(const float* src, std::int64_t blocks, std::byte* dst);
void encode_f16(const float* src, std::int64_t blocks, std::byte* dst);
void encode_bf16(const float* src, std::int64_t blocks, std::byte* dst);
void encode_f64(const float* src, std::int64_t blocks, std::byte* dst);
void encode_f8_e4m3(const float* src, std::int64_t blocks, std::byte* dst);

void decode_q4_0(const std::byte* src, std::int64_t blocks, float* dst);
void decode_q4_1(const std::byte* src, std::int64_t blocks, float* dst);
void decode_q5_0(const std::byte* src, std::int64_t blocks, float* dst);
void decode_q5_1(const std::byte* src, std::int64_t blocks, float* dst);
void decode_q8_0(const std::byte* src, std::int64_t blocks, float* dst);
void encode_q4_0(const float* src, std::int64_t blocks, std::byte* dst);
void encode_q4_1(const float* src, std::int64_t blocks, std::byte* dst);
void encode_q5_0(const float* src, std::int64_t blocks, std::byte* dst);
void encode_q5_1(const float* src, std::int64_t blocks, std::byte* dst);
void encode_q8_0(const float* src, std::int64_t blocks, std::byte* dst);

void decode_q2_k(const std::byte* src, std::int64_t blocks, float* dst);
void decode_q3_k(const std::byte* src, std::int64_t blocks, float* dst);
void decode_q4_k(const std::byte* src, std::int64_t blocks, float* dst);
void decode_q5_k(const std::byte* src, std::int64_t blocks, float* dst);
void decode_q6_k(const std::byte* src, std::int64_t blocks, float* dst);

void decode_iq4_nl(const std::byte* src, std::int64_t blocks, float* dst);
void decode_iq4_xs(const std::byte* src, std::int64_t blocks, float* dst);
void decode_mxfp4(const std::byte* src, std::int64_t blocks, float* dst);

}  // namespace dsv31::inline v1::quant
