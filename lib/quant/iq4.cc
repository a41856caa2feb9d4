// Four-bit indices into 16 uneven levels: IQ4_NL (blocks of 32) and IQ4_XS (super-blocks of 256 with six-bit scales).
//
// Layout (bytes): IQ4_NL d[2] qs[16]; IQ4_XS d[2] scales_h[2] scales_l[4] qs[128]. Nibbles as in Q4_0, per 32 values.
#include "lib/quant/codecs.h"

namespace dsv31::inline v1::quant {

namespace {
void decode_levels(const std::byte* qs, float scale, float* dst) {  // dst (32)
  for (std::size_t j = 0; j < 16; ++j) {
    const int q = byte_at(qs, j);
    dst[j] = scale * static_cast<float>(kIq4Levels[q & 15]);
    dst[j + 16] = scale * static_cast<float>(kIq4Levels[q >> 4]);
  }
}
}  // namespace

void decode_iq4_nl(const std::byte* src, std::int64_t blocks, float* dst) {
  for (std::int64_t b = 0; b < blocks; ++b, src += 18, dst += 32) decode_levels(src + 2, half_at(src, 0), dst);
}

void decode_iq4_xs(const std::byte* src, std::int64_t blocks, float* dst) {
  for (std::int64_t b = 0; b < blocks; ++b, src += 136, dst += 256) {
    const float d = half_at(src, 0);
    for (std::size_t j = 0; j < 8; ++j) {
      const int low = byte_at(src, 4 + j / 2) >> (4 * (j % 2)) & 15, high = u16_at(src, 2) >> (2 * j) & 3;
      decode_levels(src + 8 + 16 * j, d * static_cast<float>((low | high << 4) - 32), dst + 32 * j);
    }
  }
}

}  // namespace dsv31::inline v1::quant
