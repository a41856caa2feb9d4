// exp and log in double precision from additions, multiplications and divisions only. The C library's differ by a bit from one
// machine to the next, and a bit can change which token wins; these do not. Errors stay below 4 units in the last place.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace dsv31::inline v1::session {

// REQUIRES: x > 0 and finite.
inline double portable_log(double x) {
  int shift = 0;
  if (x < 2.2250738585072014e-308) {  // subnormal
    x *= 18014398509481984.0;         // 2^54
    shift = -54;
  }
  std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  int e = static_cast<int>(bits >> 52) - 1023 + shift;
  double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFull) | 0x3FF0000000000000ull);  // [1, 2)
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++e;
  }
  // log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| <= 0.1716
  double s = (m - 1) / (m + 1), z = s * s;
  double p = 1.0 / 21;
  for (int k = 19; k >= 1; k -= 2) p = p * z + 1.0 / k;
  return e * 0.6931471805599453 + 2 * s * p;
}

// 0 below -745.
inline double portable_exp(double x) {
  if (!(x > -745)) return 0;
  if (x > 709) return std::numeric_limits<double>::infinity();
  double n = std::floor(x * 1.4426950408889634 + 0.5);
  double r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;  // |r| <= 0.3466
  double p = 1.0 / 87178291200.0;                                                 // 1 / 14!
  const double factorial[] = {1.0 / 6227020800.0,
                              1.0 / 479001600.0,
                              1.0 / 39916800.0,
                              1.0 / 3628800.0,
                              1.0 / 362880.0,
                              1.0 / 40320.0,
                              1.0 / 5040.0,
                              1.0 / 720.0,
                              1.0 / 120.0,
                              1.0 / 24.0,
                              1.0 / 6.0,
                              0.5,
                              1.0,
                              1.0};
  for (double f : factorial) p = p * r + f;
  int k = static_cast<int>(n);
  if (k < -1000)
    return p * std::bit_cast<double>(std::uint64_t{23} << 52) * std::bit_cast<double>(static_cast<std::uint64_t>(k + 2023) << 52);
  return p * std::bit_cast<double>(static_cast<std::uint64_t>(k + 1023) << 52);
}

// x[i] = portable_exp(x[i]), the same bits, for -690 < x[i] <= 0, else 0: without
// branches, so that the compiler makes vectors of it.
inline void exp_of_negative(double* x, std::size_t n) {
  constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer, which then is in the low bits
  for (std::size_t i = 0; i < n; ++i) {
    const double y = x[i] > -690 ? x[i] : -690;
    double m = (y * 1.4426950408889634 + 0.5) + kRound;
    const double nearest = m - kRound, above = nearest > y * 1.4426950408889634 + 0.5 ? 1 : 0;
    const double k = nearest - above;
    m = k + kRound;
    const double r = (y - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10;
    double p = 1.0 / 87178291200.0;
    p = p * r + 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    const double power = std::bit_cast<double>((std::bit_cast<std::uint64_t>(m) + 1023) << 52);
    x[i] = x[i] > -690 ? p * power : 0.0;
  }
}

}  // namespace dsv31::inline v1::session
