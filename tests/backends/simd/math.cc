// The functions of simd/math.h against libm in double, in units in the last place of the float32 result.
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/backends/simd/probe.h"
#include "tests/catch.h"

using namespace dsv31;

namespace {
double ulp(float y) {
  const float a = std::fabs(y);
  return a < 0x1p-126f ? 0x1p-149 : std::ldexp(1.0, std::ilogb(a) - 23);
}
// The largest error over 400,000 points spread evenly in [lo, hi] and as many spread evenly in exponent.
double worst(test::Probe::Unary f, double (*truth)(double), float lo, float hi) {
  std::mt19937 rng(3);
  std::uniform_real_distribution<float> even(lo, hi), power(-20.0f, 0.0f);
  double error = 0;
  for (int i = 0; i < 25000; ++i) {
    float x[32], y[32];
    for (int j = 0; j < 16; ++j) x[j] = even(rng), x[16 + j] = (j % 2 ? lo : hi) * std::exp2(power(rng));
    f(x, 32, y);
    for (int j = 0; j < 32; ++j) {
      const double want = truth(static_cast<double>(x[j]));
      error = std::max(error, std::fabs(static_cast<double>(y[j]) - want) / ulp(static_cast<float>(want)));
    }
  }
  return error;
}
double d_exp(double x) { return std::exp(x); }
double d_log(double x) { return std::log(x); }
double d_tanh(double x) { return std::tanh(x); }
double d_sin(double x) { return std::sin(x); }
double d_cos(double x) { return std::cos(x); }
double d_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double d_silu(double x) { return x / (1 + std::exp(-x)); }
double d_gelu(double x) { return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
}  // namespace

TEST_CASE("elementary functions stay within their stated errors") {
  const auto& p = test::probe(simd::best_isa());
  CHECK(worst(p.exp, d_exp, -87.0f, 88.7f) <= 1.1);
  CHECK(worst(p.exp, d_exp, -103.0f, -87.0f) <= 1.1);  // subnormal results
  CHECK(worst(p.log, d_log, 1e-42f, 1e-37f) <= 1.0);   // subnormal arguments
  CHECK(worst(p.log, d_log, 0.5f, 2.0f) <= 1.0);
  CHECK(worst(p.log, d_log, 1e-3f, 3e38f) <= 1.0);
  CHECK(worst(p.tanh, d_tanh, -10.0f, 10.0f) <= 1.6);
  CHECK(worst(p.tanh, d_tanh, -1e-3f, 0.7f) <= 1.6);
  CHECK(worst(p.sigmoid, d_sigmoid, -87.0f, 30.0f) <= 2.3);
  CHECK(worst(p.silu, d_silu, -87.0f, 30.0f) <= 2.6);
  CHECK(worst(p.gelu_tanh, d_gelu, -1.0f, 1.0f) <= 6.2);
  CHECK(worst(p.gelu_tanh, d_gelu, 0.0f, 20.0f) <= 6.2);
  CHECK(worst(p.sin, d_sin, -4.0f, 4.0f) <= 1.6);
  CHECK(worst(p.cos, d_cos, -4.0f, 4.0f) <= 1.6);
  CHECK(worst(p.sin, d_sin, -1048576.0f, 1048576.0f) <= 1.6);
  CHECK(worst(p.cos, d_cos, -1048576.0f, 1048576.0f) <= 1.6);
}

TEST_CASE("elementary functions at their special points") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const float x[16] = {0.0f,  -0.0f,  kInf,    -kInf, kNan,   1.0f,    89.0f, -105.0f,
                       -1.0f, 1e-40f, -1e-40f, 2.0f,  100.0f, -100.0f, 0.5f,  -0.5f};
  for (simd::Isa isa : {simd::Isa::generic, simd::Isa::avx2, simd::Isa::avx512}) {
    if (!simd::supported(isa)) continue;
    const auto& p = test::probe(isa);
    float y[16];
    p.exp(x, 16, y);
    CHECK(y[0] == 1.0f);
    CHECK(y[1] == 1.0f);
    CHECK(y[2] == kInf);
    CHECK(y[3] == 0.0f);
    CHECK(std::isnan(y[4]));
    CHECK(y[6] == kInf);
    CHECK(y[7] == 0.0f);
    p.log(x, 16, y);
    CHECK(y[0] == -kInf);
    CHECK(y[1] == -kInf);
    CHECK(y[2] == kInf);
    CHECK(std::isnan(y[3]));
    CHECK(std::isnan(y[4]));
    CHECK(y[5] == 0.0f);
    CHECK(std::isnan(y[8]));
    CHECK(std::isnan(y[10]));
    p.tanh(x, 16, y);
    CHECK(std::signbit(y[1]));
    CHECK(y[2] == 1.0f);
    CHECK(y[3] == -1.0f);
    CHECK(std::isnan(y[4]));
    CHECK(y[9] == 1e-40f);
    p.sigmoid(x, 16, y);
    CHECK(y[0] == 0.5f);
    CHECK(y[2] == 1.0f);
    CHECK(y[3] == 0.0f);
    CHECK(std::isnan(y[4]));
    p.silu(x, 16, y);
    CHECK(y[0] == 0.0f);
    CHECK(y[12] == 100.0f);
    CHECK(y[13] == 0.0f);
    CHECK(std::isnan(y[4]));
    p.sin(x, 16, y);
    CHECK(y[0] == 0.0f);
    CHECK(std::isnan(y[2]));
    CHECK(std::isnan(y[4]));
    p.cos(x, 16, y);
    CHECK(y[0] == 1.0f);
    CHECK(std::isnan(y[3]));
  }
}
