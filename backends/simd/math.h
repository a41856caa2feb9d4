// Elementary functions on sixteen lanes, with the same bits on every instruction set.
//
// libm may differ between machines and versions, so the library has its own: argument reduction by fma with the constant in two
// or three parts (Cody and Waite), then a minimax polynomial in Horner form, every step an explicit fma. The coefficients were
// fitted by Lawson's iteration on 4,000 Chebyshev points and rounded to float32. Errors in units in the last place (ulp) of the
// correctly rounded result are upper bounds seen by tests/backends/simd_math.cc:
//   exp 1.1   log 1.0   tanh 1.6   sigmoid 2.3   silu 2.6   gelu_tanh see there   sin, cos 1.6 for |x| <= 2^20
// A NaN gives a NaN. Include after lanes.h.
#pragma once

#include "backends/simd/lanes.h"

namespace dsv31::inline v1::simd::DSV31_ISA {

// x * 2^k for integral k in [-300, 300], rounded once.
DSV31_LANES V16 scale_by_power(V16 x, V16 k) {
  const I16 n = to_int(k), half = shr<1>(n);
  const V16 a = as_float(shl<23>(add(half, set1i(127))));
  const V16 b = as_float(shl<23>(add(sub(n, half), set1i(127))));
  return mul(mul(x, a), b);
}

// e^x. 0 below -104, infinity above 88.8, subnormal results included.
DSV31_LANES V16 exp(V16 x) {
  x = min(set1(120.0f), max(set1(-120.0f), x));  // a NaN stays: it is the second operand
  const V16 k = round(mul(x, set1(0x1.715476p+0f)));
  V16 r = fnma(k, set1(0x1.62e430p-1f), x);
  r = fnma(k, set1(-0x1.05c610p-29f), r);
  V16 p = set1(0x1.6a23f0p-10f);
  p = fma(p, r, set1(0x1.123a0ap-7f));
  p = fma(p, r, set1(0x1.5558f2p-5f));
  p = fma(p, r, set1(0x1.555492p-3f));
  p = fma(p, r, set1(0x1.fffffcp-2f));
  const V16 y = add(set1(1.0f), fma(mul(r, r), p, r));
  return scale_by_power(y, k);
}

// Natural logarithm. log(+-0) = -infinity, log(x < 0) = NaN.
DSV31_LANES V16 log(V16 x) {
  const M16 tiny = less(x, set1(0x1p-126f));
  const V16 normal = select(tiny, mul(x, set1(0x1p24f)), x);
  // Split so that the mantissa lies in [sqrt(1/2), sqrt(2)).
  const I16 bits = sub(as_int(normal), set1i(0x3f3504f3));
  V16 e = to_float(shr<23>(bits));
  e = select(tiny, sub(e, set1(24.0f)), e);
  const V16 m = as_float(add(bit_and(bits, set1i(0x7fffff)), set1i(0x3f3504f3)));
  const V16 f = sub(m, set1(1.0f)), z = mul(f, f);
  V16 p = set1(0x1.1457a2p-4f);
  p = fma(p, f, set1(-0x1.de3c14p-4f));
  p = fma(p, f, set1(0x1.e6f06cp-4f));
  p = fma(p, f, set1(-0x1.fc2208p-4f));
  p = fma(p, f, set1(0x1.233768p-3f));
  p = fma(p, f, set1(-0x1.555c4ep-3f));
  p = fma(p, f, set1(0x1.99a4b6p-3f));
  p = fma(p, f, set1(-0x1.000006p-2f));
  p = fma(p, f, set1(0x1.555548p-2f));
  V16 y = fma(e, set1(-0x1.05c610p-29f), mul(mul(f, z), p));
  y = add(f, fnma(set1(0.5f), z, y));
  y = fma(e, set1(0x1.62e430p-1f), y);
  y = select(less(set1(0x1.fffffep+127f), x), x, y);                                         // infinity
  y = select(equal(x, zero()), as_float(set1i(static_cast<std::int32_t>(0xff800000u))), y);  // -infinity
  return select(mask_or(less(x, zero()), is_nan(x)), as_float(set1i(0x7fc00000)), y);
}

DSV31_LANES V16 tanh(V16 x) {
  const V16 a = abs(x), z = mul(x, x);
  V16 p = set1(0x1.197b7ap-9f);
  p = fma(p, z, set1(-0x1.0c2146p-7f));
  p = fma(p, z, set1(0x1.6394dap-6f));
  p = fma(p, z, set1(-0x1.b9ef7cp-5f));
  p = fma(p, z, set1(0x1.11106cp-3f));
  p = fma(p, z, set1(-0x1.555554p-2f));
  const V16 small = fma(mul(x, z), p, x);
  const V16 big = sub(set1(1.0f), div(set1(2.0f), add(exp(add(a, a)), set1(1.0f))));
  const V16 y = abs(select(less(a, set1(0.625f)), small, big));
  return select(is_nan(x), x, as_float(bit_or(as_int(y), bit_and(as_int(x), set1i(INT32_MIN)))));
}

// 1 / (1 + e^-x)
DSV31_LANES V16 sigmoid(V16 x) { return div(set1(1.0f), add(set1(1.0f), exp(neg(x)))); }

// x * sigmoid(x). -0 below -88.8, where the true value is under 3e-37.
DSV31_LANES V16 silu(V16 x) { return div(x, add(set1(1.0f), exp(neg(x)))); }

// x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3), as x / (1 + e^-2u): the same function without the cancellation for x < 0.
// The rounding of u grows the relative error of a small result: at most |2u| + 4 ulp.
DSV31_LANES V16 gelu_tanh(V16 x) {
  const V16 cube = mul(mul(x, x), x);
  const V16 u = mul(set1(0x1.988454p-1f), fma(set1(0.044715f), cube, x));
  return div(x, add(set1(1.0f), exp(mul(set1(-2.0f), u))));
}

// sin and cos of x, |x| <= 2^20. Past that accuracy falls off; infinities give NaN.
DSV31_LANES void sincos(V16 x, V16& sin_x, V16& cos_x) {
  const V16 k = round(mul(x, set1(0x1.45f306p-1f)));
  V16 r = fnma(k, set1(0x1.921fb6p+0f), x);  // exact
  r = fnma(k, set1(-0x1.777a5cp-25f), r);
  r = fnma(k, set1(-0x1.ee59dap-50f), r);
  const V16 z = mul(r, r);
  V16 s = set1(0x1.6c704cp-19f);
  s = fma(s, z, set1(-0x1.a00ddcp-13f));
  s = fma(s, z, set1(0x1.111106p-7f));
  s = fma(s, z, set1(-0x1.555556p-3f));
  s = fma(mul(r, z), s, r);
  V16 c = set1(-0x1.23dd98p-22f);
  c = fma(c, z, set1(0x1.a00fa0p-16f));
  c = fma(c, z, set1(-0x1.6c16b6p-10f));
  c = fma(c, z, set1(0x1.555556p-5f));
  c = fma(mul(z, z), c, fnma(set1(0.5f), z, set1(1.0f)));
  // Quadrant q = k mod 4: (sin, cos) = (s, c), (c, -s), (-s, -c), (-c, s).
  const I16 q = to_int(k);
  const M16 odd = equal(bit_and(q, set1i(1)), set1i(1));
  const I16 sin_sign = shl<30>(bit_and(q, set1i(2)));
  const I16 cos_sign = shl<30>(bit_and(add(q, set1i(1)), set1i(2)));
  sin_x = as_float(bit_xor(as_int(select(odd, c, s)), sin_sign));
  cos_x = as_float(bit_xor(as_int(select(odd, s, c)), cos_sign));
}

}  // namespace dsv31::inline v1::simd::DSV31_ISA
