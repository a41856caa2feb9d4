// Blocks of 32 with one half-precision scale: Q4_0 Q4_1 Q5_0 Q5_1 Q8_0.
//
// Layout (bytes): Q4_0 d[2] qs[16]; Q4_1 d[2] m[2] qs[16]; Q5_0 d[2] qh[4] qs[16]; Q5_1 d[2] m[2] qh[4] qs[16]; Q8_0 d[2] q[32].
// Nibbles: byte j of qs holds y[j] low and y[j + 16] high; bit i of qh is the fifth bit of y[i]. The encoders choose the scale
// from the extreme value in float32 and store it as half, as the reference quantisers do.
#include <cmath>

#include "lib/quant/codecs.h"

namespace dsv31::inline v1::quant {

namespace {

template <bool kMinimum, bool kFifthBit>
void decode_nibbles(const std::byte* src, std::int64_t blocks, float* dst) {
  constexpr std::size_t high_at = kMinimum ? 4 : 2, qs_at = high_at + (kFifthBit ? 4 : 0);
  constexpr int offset = kMinimum ? 0 : kFifthBit ? 16 : 8;
  for (std::int64_t b = 0; b < blocks; ++b, src += qs_at + 16, dst += 32) {
    const float d = half_at(src, 0), m = kMinimum ? half_at(src, 2) : 0.0f;
    const std::uint32_t high = kFifthBit ? u32_at(src, high_at) : 0;
    for (std::size_t j = 0; j < 16; ++j) {
      const int q = byte_at(src, qs_at + j);
      const int q0 = (q & 15) | static_cast<int>(high >> j & 1) << 4, q1 = q >> 4 | static_cast<int>(high >> (j + 16) & 1) << 4;
      dst[j] = static_cast<float>(q0 - offset) * d;
      dst[j + 16] = static_cast<float>(q1 - offset) * d;
      if constexpr (kMinimum) {
        dst[j] += m;
        dst[j + 16] += m;
      }
    }
  }
}

// Truncation into [0, top]; NaN gives 0.
int truncate(float v, int top) { return v > 0.0f ? (v < static_cast<float>(top) ? static_cast<int>(v) : top) : 0; }

template <bool kMinimum, bool kFifthBit>
void encode_nibbles(const float* src, std::int64_t blocks, std::byte* dst) {
  constexpr std::size_t high_at = kMinimum ? 4 : 2, qs_at = high_at + (kFifthBit ? 4 : 0);
  constexpr int levels = kFifthBit ? 32 : 16;
  for (std::int64_t b = 0; b < blocks; ++b, dst += qs_at + 16, src += 32) {
    float low = src[0], top = src[0], extreme = 0.0f;  // extreme: the value of largest magnitude, the first of equals
    for (int j = 0; j < 32; ++j) {
      if (src[j] < low) low = src[j];
      if (src[j] > top) top = src[j];
      if (std::fabs(src[j]) > std::fabs(extreme)) extreme = src[j];
    }
    const float d = kMinimum ? (top - low) / static_cast<float>(levels - 1) : extreme / static_cast<float>(-levels / 2);
    const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
    const float base = kMinimum ? low : 0.0f, shift = kMinimum ? 0.5f : static_cast<float>(levels / 2) + 0.5f;
    put_u16(dst, f32_to_f16(d));
    if constexpr (kMinimum) put_u16(dst + 2, f32_to_f16(low));
    std::uint32_t high = 0;
    for (unsigned j = 0; j < 16; ++j) {
      const int q0 = truncate((src[j] - base) * inverse + shift, levels - 1);
      const int q1 = truncate((src[j + 16] - base) * inverse + shift, levels - 1);
      dst[qs_at + j] = static_cast<std::byte>((q0 & 15) | (q1 & 15) << 4);
      high |= static_cast<std::uint32_t>(q0 >> 4) << j | static_cast<std::uint32_t>(q1 >> 4) << (j + 16);
    }
    if constexpr (kFifthBit) {
      put_u16(dst + high_at, static_cast<std::uint16_t>(high));
      put_u16(dst + high_at + 2, static_cast<std::uint16_t>(high >> 16));
    }
  }
}

}  // namespace

void decode_q4_0(const std::byte* src, std::int64_t blocks, float* dst) { decode_nibbles<false, false>(src, blocks, dst); }
void decode_q4_1(const std::byte* src, std::int64_t blocks, float* dst) { decode_nibbles<true, false>(src, blocks, dst); }
void decode_q5_0(const std::byte* src, std::int64_t blocks, float* dst) { decode_nibbles<false, true>(src, blocks, dst); }
void decode_q5_1(const std::byte* src, std::int64_t blocks, float* dst) { decode_nibbles<true, true>(src, blocks, dst); }
void encode_q4_0(const float* src, std::int64_t blocks, std::byte* dst) { encode_nibbles<false, false>(src, blocks, dst); }
void encode_q4_1(const float* src, std::int64_t blocks, std::byte* dst) { encode_nibbles<true, false>(src, blocks, dst); }
void encode_q5_0(const float* src, std::int64_t blocks, std::byte* dst) { encode_nibbles<false, true>(src, blocks, dst); }
void encode_q5_1(const float* src, std::int64_t blocks, std::byte* dst) { encode_nibbles<true, true>(src, blocks, dst); }

void decode_q8_0(const std::byte* src, std::int64_t blocks, float* dst) {
  for (std::int64_t b = 0; b < blocks; ++b, src += 34, dst += 32) {
    const float d = half_at(src, 0);
    for (std::size_t j = 0; j < 32; ++j) dst[j] = static_cast<float>(static_cast<std::int8_t>(byte_at(src, 2 + j))) * d;
  }
}

void encode_q8_0(const float* src, std::int64_t blocks, std::byte* dst) {
  for (std::int64_t b = 0; b < blocks; ++b, dst += 34, src += 32) {
    float amax = 0.0f;
    for (int j = 0; j < 32; ++j)
      if (std::fabs(src[j]) > amax) amax = std::fabs(src[j]);
    const float d = amax / 127.0f, inverse = d != 0.0f ? 1.0f / d : 0.0f;
    put_u16(dst, f32_to_f16(d));
    for (int j = 0; j < 32; ++j) {
      const float v = src[j] * inverse;
      const int q = truncate(std::fabs(v) + 0.5f, 127);  // half away from zero
      dst[2 + j] = static_cast<std::byte>(v < 0.0f ? -q : q);
    }
  }
}

}  // namespace dsv31::inline v1::quant
