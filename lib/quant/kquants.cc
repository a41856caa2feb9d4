// Super-blocks of 256 with integer sub-scales: Q2_K Q3_K Q4_K Q5_K Q6_K.
//
// A half-precision d (and dmin) covers 256 values; each sub-block of 16 or 32 has its own small integer scale (and minimum).
// Layout (bytes): Q2_K scales[16] qs[64] d dmin; Q3_K hmask[32] qs[64] scales[12] d; Q4_K d dmin scales[12] qs[128];
// Q5_K d dmin scales[12] qh[32] qs[128]; Q6_K ql[128] qh[64] scales[16] d.
#include "lib/quant/codecs.h"

namespace dsv31::inline v1::quant {

namespace {

// Sub-block j of 8: six-bit scale and minimum out of the 12 bytes of Q4_K and Q5_K.
struct ScaleMin {
  int scale, minimum;
};
ScaleMin scale_min(const std::byte* s, std::size_t j) {
  if (j < 4) return {byte_at(s, j) & 63, byte_at(s, j + 4) & 63};
  return {(byte_at(s, j + 4) & 15) | byte_at(s, j - 4) >> 6 << 4, byte_at(s, j + 4) >> 4 | byte_at(s, j) >> 6 << 4};
}

// Sub-block k of 16: signed six-bit scale out of the 12 bytes of Q3_K.
int signed_scale(const std::byte* s, std::size_t k) {
  const int low = k < 8 ? byte_at(s, k) & 15 : byte_at(s, k - 8) >> 4;
  const int high = byte_at(s, 8 + k % 4) >> (2 * (k / 4)) & 3;
  return (low | high << 4) - 32;
}

template <bool kFifthBit>
void decode_4_or_5(const std::byte* src, std::int64_t blocks, float* dst) {
  constexpr std::size_t bytes = kFifthBit ? 176 : 144, qh_at = 16, qs_at = kFifthBit ? 48 : 16;
  for (std::int64_t b = 0; b < blocks; ++b, src += bytes, dst += 256) {
    const float d = half_at(src, 0), dmin = half_at(src, 2);
    for (std::size_t j = 0; j < 8; ++j) {  // sub-blocks 2c and 2c + 1 share 32 bytes: low nibbles, then high nibbles
      const auto [scale, minimum] = scale_min(src + 4, j);
      const float dl = d * static_cast<float>(scale), ml = dmin * static_cast<float>(minimum);
      for (std::size_t l = 0; l < 32; ++l) {
        int q = byte_at(src, qs_at + 32 * (j / 2) + l) >> (j % 2 * 4) & 15;
        if constexpr (kFifthBit) q |= (byte_at(src, qh_at + l) >> j & 1) << 4;
        dst[32 * j + l] = dl * static_cast<float>(q) - ml;
      }
    }
  }
}

}  // namespace

void decode_q2_k(const std::byte* src, std::int64_t blocks, float* dst) {
  for (std::int64_t b = 0; b < blocks; ++b, src += 84, dst += 256) {
    const float d = half_at(src, 80), dmin = half_at(src, 82);
    for (std::size_t k = 0; k < 16; ++k) {  // half k / 8, shift 2 * (k / 2 % 4), bytes 16 * (k % 2) and on
      const int sc = byte_at(src, k);
      const float dl = d * static_cast<float>(sc & 15), ml = dmin * static_cast<float>(sc >> 4);
      for (std::size_t l = 0; l < 16; ++l) {
        const int q = byte_at(src, 16 + 32 * (k / 8) + 16 * (k % 2) + l) >> (2 * (k / 2 % 4)) & 3;
        dst[16 * k + l] = dl * static_cast<float>(q) - ml;
      }
    }
  }
}

void decode_q3_k(const std::byte* src, std::int64_t blocks, float* dst) {
  for (std::int64_t b = 0; b < blocks; ++b, src += 110, dst += 256) {
    const float d = half_at(src, 108);
    for (std::size_t k = 0; k < 16; ++k) {
      const float dl = d * static_cast<float>(signed_scale(src + 96, k));
      for (std::size_t l = 0; l < 16; ++l) {
        const std::size_t at = 16 * (k % 2) + l;
        const int low = byte_at(src, 32 + 32 * (k / 8) + at) >> (2 * (k / 2 % 4)) & 3;
        const int high = byte_at(src, at) >> (k / 2) & 1;
        dst[16 * k + l] = dl * static_cast<float>(low - (high != 0 ? 0 : 4));
      }
    }
  }
}

void decode_q4_k(const std::byte* src, std::int64_t blocks, float* dst) { decode_4_or_5<false>(src, blocks, dst); }
void decode_q5_k(const std::byte* src, std::int64_t blocks, float* dst) { decode_4_or_5<true>(src, blocks, dst); }

void decode_q6_k(const std::byte* src, std::int64_t blocks, float* dst) {
  for (std::int64_t b = 0; b < blocks; ++b, src += 210, dst += 256) {
    const float d = half_at(src, 208);
    for (std::size_t k = 0; k < 16; ++k) {  // half h of 128, quarter c of 32 in it, 16 values from l0 on
      const std::size_t h = k / 8, c = k / 2 % 4, l0 = 16 * (k % 2);
      const float dl = d * static_cast<float>(static_cast<std::int8_t>(byte_at(src, 192 + k)));
      for (std::size_t l = l0; l < l0 + 16; ++l) {
        const int low = byte_at(src, 64 * h + 32 * (c % 2) + l) >> (4 * (c / 2)) & 15;
        const int high = byte_at(src, 128 + 32 * h + l) >> (2 * c) & 3;
        dst[128 * h + 32 * c + l] = dl * static_cast<float>((low | high << 4) - 32);
      }
    }
  }
}

}  // namespace dsv31::inline v1::quant
