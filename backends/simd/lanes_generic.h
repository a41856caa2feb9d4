// V16 as plain loops: the meaning of every lane operation, and the code for processors without AVX2. Included by lanes.h only.
#pragma once

#include <cstdint>
#include <cstring>

#define DSV31_LANES [[gnu::always_inline]] inline

namespace dsv31::inline v1::simd::generic {

struct V16 {
  float v[16];
};
struct I16 {
  std::int32_t v[16];
};
struct M16 {
  std::uint32_t bits;
};  // bit i: lane i

#define DSV31_EACH for (int i = 0; i < 16; ++i)

DSV31_LANES V16 set1(float x) {
  V16 r;
  DSV31_EACH r.v[i] = x;
  return r;
}
DSV31_LANES V16 load(const float* p) {
  V16 r;
  std::memcpy(r.v, p, sizeof r.v);
  return r;
}
DSV31_LANES void store(float* p, V16 a) { std::memcpy(p, a.v, sizeof a.v); }
// The first n lanes from memory, the others `fill`; 0 <= n <= 16. Nothing past p[n - 1] is touched.
DSV31_LANES V16 load_n(const float* p, std::int64_t n, float fill) {
  V16 r;
  DSV31_EACH r.v[i] = i < n ? p[i] : fill;
  return r;
}
DSV31_LANES void store_n(float* p, std::int64_t n, V16 a) { DSV31_EACH if (i < n) p[i] = a.v[i]; }

DSV31_LANES float half_to_float(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16, magnitude = h & 0x7fffu;
  std::uint32_t bits;
  if (magnitude >= 0x7c00u)
    bits = 0x7f800000u | magnitude << 13 | (magnitude > 0x7c00u ? 0x400000u : 0u);
  else if (magnitude >= 0x400u)
    bits = (magnitude << 13) + (112u << 23);
  else {
    const float f = static_cast<float>(magnitude) * 0x1p-24f;
    std::memcpy(&bits, &f, 4);
  }
  bits |= sign;
  float r;
  std::memcpy(&r, &bits, 4);
  return r;
}
DSV31_LANES std::uint16_t float_to_half(float f) {
  std::uint32_t bits;
  std::memcpy(&bits, &f, 4);
  const std::uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {  // below 2^-14: the sum's last place is 2^-24, a half's subnormal step
    float m;
    std::memcpy(&m, &magnitude, 4);
    m += 0.5f;
    std::uint32_t r;
    std::memcpy(&r, &m, 4);
    return static_cast<std::uint16_t>(sign | (r - 0x3f000000u));
  }
  return static_cast<std::uint16_t>(sign | ((magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13));
}
DSV31_LANES V16 load_f16(const std::uint16_t* p) {
  V16 r;
  DSV31_EACH r.v[i] = half_to_float(p[i]);
  return r;
}
DSV31_LANES void store_f16(std::uint16_t* p, V16 a) { DSV31_EACH p[i] = float_to_half(a.v[i]); }  // to nearest even
DSV31_LANES V16 load_bf16(const std::uint16_t* p) {
  V16 r;
  DSV31_EACH {
    const std::uint32_t bits = static_cast<std::uint32_t>(p[i]) << 16;
    std::memcpy(&r.v[i], &bits, 4);
  }
  return r;
}

// E4M3FN times 2^-8, exact (moving the bits up gives a half whose exponent is 8 too small); 0x7f and 0xff are NaN.
DSV31_LANES V16 load_e4m3(const std::uint8_t* p) {
  V16 r;
  DSV31_EACH {
    const std::uint32_t x = p[i], magnitude = x & 0x7fu;
    r.v[i] = half_to_float(static_cast<std::uint16_t>((x & 0x80u) << 8 | (magnitude == 0x7fu ? 0x7e00u : magnitude << 7)));
  }
  return r;
}

DSV31_LANES void load_e4m3(const std::uint8_t* p, V16& a, V16& b) {  // 32 at once
  a = load_e4m3(p);
  b = load_e4m3(p + 16);
}

DSV31_LANES V16 add(V16 a, V16 b) {
  DSV31_EACH a.v[i] += b.v[i];
  return a;
}
DSV31_LANES V16 sub(V16 a, V16 b) {
  DSV31_EACH a.v[i] -= b.v[i];
  return a;
}
DSV31_LANES V16 mul(V16 a, V16 b) {
  DSV31_EACH a.v[i] *= b.v[i];
  return a;
}
DSV31_LANES V16 div(V16 a, V16 b) {
  DSV31_EACH a.v[i] /= b.v[i];
  return a;
}
DSV31_LANES V16 fma(V16 a, V16 b, V16 c) {
  DSV31_EACH c.v[i] = __builtin_fmaf(a.v[i], b.v[i], c.v[i]);
  return c;
}  // a * b + c
DSV31_LANES V16 fnma(V16 a, V16 b, V16 c) {
  DSV31_EACH c.v[i] = __builtin_fmaf(-a.v[i], b.v[i], c.v[i]);
  return c;
}  // c - a * b
// a > b ? a : b and a < b ? a : b: where one is a NaN, or both are zeros, the second operand.
DSV31_LANES V16 max(V16 a, V16 b) {
  DSV31_EACH a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
  return a;
}
DSV31_LANES V16 min(V16 a, V16 b) {
  DSV31_EACH a.v[i] = a.v[i] < b.v[i] ? a.v[i] : b.v[i];
  return a;
}
DSV31_LANES V16 sqrt(V16 a) {
  DSV31_EACH a.v[i] = __builtin_sqrtf(a.v[i]);
  return a;
}
DSV31_LANES V16 round(V16 a) {
  DSV31_EACH a.v[i] = __builtin_nearbyintf(a.v[i]);
  return a;
}  // to nearest even
DSV31_LANES V16 floor(V16 a) {
  DSV31_EACH a.v[i] = __builtin_floorf(a.v[i]);
  return a;
}

DSV31_LANES M16 less(V16 a, V16 b) {
  M16 m{0};
  DSV31_EACH m.bits |= static_cast<std::uint32_t>(a.v[i] < b.v[i]) << i;
  return m;
}
DSV31_LANES M16 equal(V16 a, V16 b) {
  M16 m{0};
  DSV31_EACH m.bits |= static_cast<std::uint32_t>(a.v[i] == b.v[i]) << i;
  return m;
}
DSV31_LANES M16 equal(I16 a, I16 b) {
  M16 m{0};
  DSV31_EACH m.bits |= static_cast<std::uint32_t>(a.v[i] == b.v[i]) << i;
  return m;
}
DSV31_LANES M16 first_lanes(std::int64_t n) { return {n >= 16 ? 0xffffu : n <= 0 ? 0u : (1u << n) - 1u}; }
DSV31_LANES M16 mask_not(M16 m) { return {~m.bits & 0xffffu}; }
DSV31_LANES M16 mask_and(M16 a, M16 b) { return {a.bits & b.bits}; }
DSV31_LANES M16 mask_or(M16 a, M16 b) { return {a.bits | b.bits}; }
DSV31_LANES bool any(M16 m) { return m.bits != 0; }
DSV31_LANES std::uint32_t mask_bits(M16 m) { return m.bits; }
DSV31_LANES V16 select(M16 m, V16 yes, V16 no) {
  DSV31_EACH if (m.bits >> i & 1u) no.v[i] = yes.v[i];
  return no;
}

DSV31_LANES I16 set1i(std::int32_t x) {
  I16 r;
  DSV31_EACH r.v[i] = x;
  return r;
}
DSV31_LANES I16 loadi(const std::int32_t* p) {
  I16 r;
  std::memcpy(r.v, p, sizeof r.v);
  return r;
}
DSV31_LANES void storei(std::int32_t* p, I16 a) { std::memcpy(p, a.v, sizeof a.v); }
DSV31_LANES I16 load_i8(const std::int8_t* p) {
  I16 r;
  DSV31_EACH r.v[i] = p[i];
  return r;
}
DSV31_LANES I16 load_u8(const std::uint8_t* p) {
  I16 r;
  DSV31_EACH r.v[i] = p[i];
  return r;
}
DSV31_LANES void store_i8(std::int8_t* p, I16 a) {  // saturating
  DSV31_EACH p[i] = static_cast<std::int8_t>(a.v[i] < -128 ? -128 : a.v[i] > 127 ? 127 : a.v[i]);
}
DSV31_LANES std::int32_t wrap(std::uint32_t x) { return static_cast<std::int32_t>(x); }
DSV31_LANES I16 add(I16 a, I16 b) {
  DSV31_EACH a.v[i] = wrap(static_cast<std::uint32_t>(a.v[i]) + static_cast<std::uint32_t>(b.v[i]));
  return a;
}
DSV31_LANES I16 sub(I16 a, I16 b) {
  DSV31_EACH a.v[i] = wrap(static_cast<std::uint32_t>(a.v[i]) - static_cast<std::uint32_t>(b.v[i]));
  return a;
}
DSV31_LANES I16 max(I16 a, I16 b) {
  DSV31_EACH a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
  return a;
}
DSV31_LANES I16 bit_and(I16 a, I16 b) {
  DSV31_EACH a.v[i] &= b.v[i];
  return a;
}
DSV31_LANES I16 bit_or(I16 a, I16 b) {
  DSV31_EACH a.v[i] |= b.v[i];
  return a;
}
DSV31_LANES I16 bit_xor(I16 a, I16 b) {
  DSV31_EACH a.v[i] ^= b.v[i];
  return a;
}
template <int N>
DSV31_LANES I16 shl(I16 a) {
  DSV31_EACH a.v[i] = wrap(static_cast<std::uint32_t>(a.v[i]) << N);
  return a;
}
template <int N>
DSV31_LANES I16 shr(I16 a) {
  DSV31_EACH a.v[i] >>= N;
  return a;
}  // arithmetic
template <int N>
DSV31_LANES I16 shr_logical(I16 a) {
  DSV31_EACH a.v[i] = wrap(static_cast<std::uint32_t>(a.v[i]) >> N);
  return a;
}
DSV31_LANES V16 to_float(I16 a) {
  V16 r;
  DSV31_EACH r.v[i] = static_cast<float>(a.v[i]);
  return r;
}
DSV31_LANES I16 to_int(V16 a) {  // to nearest even; INT32_MIN where it does not fit
  I16 r;
  DSV31_EACH r.v[i] =
      a.v[i] >= -0x1p31f && a.v[i] < 0x1p31f ? static_cast<std::int32_t>(__builtin_nearbyintf(a.v[i])) : INT32_MIN;
  return r;
}
DSV31_LANES I16 as_int(V16 a) {
  I16 r;
  std::memcpy(r.v, a.v, sizeof r.v);
  return r;
}
DSV31_LANES V16 as_float(I16 a) {
  V16 r;
  std::memcpy(r.v, a.v, sizeof r.v);
  return r;
}

// Fixed tree: lane i with lane i + 8, then + 4, + 2, + 1.
DSV31_LANES float sum(V16 a) {
  for (int h = 8; h > 0; h /= 2)
    for (int i = 0; i < h; ++i) a.v[i] += a.v[i + h];
  return a.v[0];
}
DSV31_LANES float max_lane(V16 a) {
  for (int h = 8; h > 0; h /= 2)
    for (int i = 0; i < h; ++i) a.v[i] = a.v[i] > a.v[i + h] ? a.v[i] : a.v[i + h];
  return a.v[0];
}
DSV31_LANES std::int32_t sum(I16 a) {
  std::uint32_t s = 0;
  DSV31_EACH s += static_cast<std::uint32_t>(a.v[i]);
  return wrap(s);
}
DSV31_LANES std::int32_t max_lane(I16 a) {
  DSV31_EACH a.v[0] = a.v[i] > a.v[0] ? a.v[i] : a.v[0];
  return a.v[0];
}
DSV31_LANES float first(V16 a) { return a.v[0]; }

#undef DSV31_EACH

}  // namespace dsv31::inline v1::simd::generic
