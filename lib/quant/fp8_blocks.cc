#include "lib/quant/fp8_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "dsv31/quant.h"

namespace dsv31::inline v1::quant {

namespace {

constexpr float kLargest = 448.0f;  // of E4M3

// q rounded to odd: a value that was between two floats stays on its side of every tie of E4M3, so that rounding a second time
// gives what rounding q itself would.
float to_odd(double q) {
  const float f = static_cast<float>(q);
  if (static_cast<double>(f) == q) return f;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(f);
  if (std::fabs(static_cast<double>(f)) > std::fabs(q)) --bits;
  return std::bit_cast<float>(bits | 1);
}

}  // namespace

void encode_fp8(const float* w, const Fp8Band& band) {
  for (std::int64_t begin = 0; begin < band.cols; begin += band.block) {
    const std::int64_t end = std::min(band.cols, begin + band.block);
    float absmax = 0;
    for (std::int64_t i = 0; i < band.rows; ++i)
      for (std::int64_t j = begin; j < end; ++j) absmax = std::max(absmax, std::fabs(w[i * band.cols + j]));
    const float scale = absmax == 0 ? 1.0f : std::max(absmax / kLargest, std::numeric_limits<float>::min());
    band.scales[begin / band.block] = scale;
    for (std::int64_t i = 0; i < band.rows; ++i)
      for (std::int64_t j = begin; j < end; ++j) {
        const double q = static_cast<double>(w[i * band.cols + j]) / static_cast<double>(scale);
        band.codes[i * band.cols + j] = static_cast<std::byte>(f32_to_e4m3(to_odd(q)));
      }
  }
}

void decode_fp8(const Fp8Band& band, float* w) {
  for (std::int64_t i = 0; i < band.rows; ++i)
    for (std::int64_t j = 0; j < band.cols; ++j)
      w[i * band.cols + j] =
          e4m3_to_f32(std::to_integer<std::uint8_t>(band.codes[i * band.cols + j])) * band.scales[j / band.block];
}

}  // namespace dsv31::inline v1::quant
