// MXFP4 (OCP Microscaling): 32 E2M1 values under one E8M0 exponent. Layout (bytes): e[1] qs[16], nibbles as in Q4_0.
//
// Levels are doubled to be integers and the scale is 2^(e - 128), whose two smallest values are subnormal. e = 255 is not
// treated as NaN here: ggml takes it as 2^127, and its files must read the same.
#include "lib/quant/codecs.h"

namespace dsv31::inline v1::quant {

void decode_mxfp4(const std::byte* src, std::int64_t blocks, float* dst) {
  for (std::int64_t b = 0; b < blocks; ++b, src += 17, dst += 32) {
    const std::uint32_t e = byte_at(src, 0);
    const float scale = std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23);
    for (std::size_t j = 0; j < 16; ++j) {
      const int q = byte_at(src, 1 + j);
      dst[j] = static_cast<float>(kE2M1Doubled[q & 15]) * scale;
      dst[j + 16] = static_cast<float>(kE2M1Doubled[q >> 4]) * scale;
    }
  }
}

}  // namespace dsv31::inline v1::quant
