// The lane operations of one instruction set as functions over arrays, so that one test body runs on all of them.
#pragma once

#include <cstdint>

#include "backends/simd/isa.h"

namespace dsv31::test {

struct Probe {
  using Unary = void (*)(const float* x, std::int64_t n, float* y);  // n a multiple of 16
  Unary exp, log, tanh, sigmoid, silu, gelu_tanh, sin, cos, round, floor, sqrt, abs, neg, integer;
  void (*binary)(const float* a, const float* b,
                 float* out);  // (16), (16) -> (7, 16): add sub mul div max min select(a < b, a, b)
  void (*fused)(const float* a, const float* b, const float* c, float* out);  // -> (2, 16): fma, fnma
  void (*to_half)(const float* x, std::uint16_t* y);                          // (16)
  void (*from_half)(const std::uint16_t* x, float* y);
  void (*from_bfloat)(const std::uint16_t* x, float* y);
  void (*from_e4m3)(const std::uint8_t* x, float* y);  // (32) -> the first 16, then all 32
  float (*sum)(const float* x);
  float (*max_lane)(const float* x);
  std::int32_t (*sum_int)(const std::int32_t* x);
  std::int32_t (*max_int)(const std::int32_t* a, const std::int32_t* b);  // of both
  void (*narrow)(const std::int32_t* x, std::int8_t* y);                  // saturating
  void (*widen)(const std::int8_t* x, float* s, float* u);                // as signed and as unsigned bytes
  void (*partial)(const float* x, std::int64_t n, float fill, float* loaded, float* stored);
  std::uint32_t (*masks)(const float* a, const float* b,
                         std::int64_t n);  // bits of (a < b or a == b) and not nan(a) and lane < n
};

extern const Probe kProbeGeneric, kProbeAvx2, kProbeAvx512;
inline const Probe& probe(simd::Isa isa) {
  return isa == simd::Isa::avx512 ? kProbeAvx512 : isa == simd::Isa::avx2 ? kProbeAvx2 : kProbeGeneric;
}

}  // namespace dsv31::test
