// Literal results of the lane operations, and equality of all instruction sets on edge cases.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tests/backends/simd/probe.h"
#include "tests/catch.h"

using namespace dsv31;
using simd::Isa;

namespace {
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<Isa> isas() {
  std::vector<Isa> list;
  for (Isa isa : {Isa::generic, Isa::avx2, Isa::avx512})
    if (simd::supported(isa)) list.push_back(isa);
  return list;
}
// Equal bits, or both NaN.
bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

std::vector<float> edges() {
  std::vector<float> v = {
      0.0f,          -0.0f,   1.0f,       -1.0f,      0.5f,        1.5f,          2.5f,          -0.5f,
      -1.5f,         -2.5f,   8388607.5f, 8388608.0f, 16777216.0f, 2147483520.0f, 2147483648.0f, -2147483648.0f,
      3e9f,          -3e9f,   kInf,       -kInf,      kNan,        1e-45f,        -1e-45f,       1.17549435e-38f,
      1e-38f,        3.4e38f, 65504.0f,   65519.996f, 65520.0f,    6.1e-5f,       5.96e-8f,      2.98e-8f,
      2.9802326e-8f, 8.9e-8f, 0.1f,       -0.3f,      100.0f,      0.49999997f};
  std::mt19937 rng(1);
  while (v.size() < 4096) v.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(rng())));
  return v;
}
}  // namespace

TEST_CASE("lane operations give literal results on every instruction set") {
  for (Isa isa : isas()) {
    const auto& p = test::probe(isa);
    INFO(simd::isa_name(isa));
    float a[16] = {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 3e9f, kNan, -7.25f, 0.0f, -0.0f, 1, 2, 3, 4, 5, 6}, y[16];
    p.round(a, 16, y);
    CHECK(y[0] == 0.0f);
    CHECK(y[1] == 2.0f);
    CHECK(y[2] == 2.0f);
    CHECK(y[4] == -2.0f);
    p.floor(a, 16, y);
    CHECK(y[3] == -1.0f);
    CHECK(y[7] == -8.0f);
    p.integer(a, 16, y);
    CHECK(y[5] == -2147483648.0f);
    CHECK(y[6] == -2147483648.0f);
    CHECK(y[7] == -7.0f);

    float b[16] = {}, out[7 * 16];
    b[6] = 3.0f;
    a[7] = 3.0f;
    b[7] = kNan;
    p.binary(a, b, out);
    CHECK(out[64 + 6] == 3.0f);      // max(NaN, 3): the second
    CHECK(std::isnan(out[64 + 7]));  // max(3, NaN): the second
    CHECK(std::signbit(out[64 + 8]) == false);
    CHECK(std::signbit(out[80 + 9]) == false);  // min(-0, 0): the second

    float big[16] = {1e8f, 1, 1, 1, 1, 1, 1, 1, -1e8f, 1, 1, 1, 1, 1, 1, 1};
    CHECK(p.sum(big) == 14.0f);  // lanes 0 and 8 meet first
    CHECK(p.max_lane(a) == 3e9f);

    std::int32_t n[16] = {1000, -1000, 127, 128, -128, -129, 5, 0, 0, 0, 0, 0, 0, 0, 0, 7};
    std::int8_t q[16];
    p.narrow(n, q);
    CHECK(q[0] == 127);
    CHECK(q[1] == -128);
    CHECK(q[3] == 127);
    CHECK(q[5] == -128);
    CHECK(q[15] == 7);
    CHECK(p.sum_int(n) == 1000 - 1000 + 127 + 128 - 128 - 129 + 5 + 7);
    std::int32_t low[16] = {};
    CHECK(p.max_int(n, low) == 1000);
    for (auto& v : low) v = -5;
    low[7] = 2000;
    CHECK(p.max_int(low, n) == 2000);
    for (auto& v : low) v = -5;
    CHECK(p.max_int(low, low) == -5);
    float s[16], u[16];
    p.widen(q, s, u);
    CHECK(s[1] == -128.0f);
    CHECK(u[1] == 128.0f);
  }
}

TEST_CASE("partial loads fill and partial stores stop") {
  for (Isa isa : isas())
    for (int n = 0; n <= 16; ++n) {
      // Heap memory of exactly n floats, so that a sanitizer sees any lane past the end.
      std::vector<float> x(static_cast<std::size_t>(n)), stored(static_cast<std::size_t>(n), 9.0f);
      for (int i = 0; i < n; ++i) x[static_cast<std::size_t>(i)] = static_cast<float>(i + 1);
      float loaded[16];
      test::probe(isa).partial(x.data(), n, -3.0f, loaded, stored.data());
      for (int i = 0; i < 16; ++i) CHECK(loaded[i] == (i < n ? static_cast<float>(i + 1) : -3.0f));
      CHECK(stored == x);
    }
}

TEST_CASE("all halves and bfloats convert exactly, floats to the nearest even half") {
  for (Isa isa : isas()) {
    const auto& p = test::probe(isa);
    int wrong = 0;
    for (std::uint32_t base = 0; base < 65536; base += 16) {
      std::uint16_t h[16], back[16];
      float f[16], g[16];
      for (std::uint32_t i = 0; i < 16; ++i) h[i] = static_cast<std::uint16_t>(base + i);
      p.from_half(h, f);
      p.to_half(f, back);
      p.from_bfloat(h, g);
      for (int i = 0; i < 16; ++i) {
        const int e = h[i] >> 10 & 31, m = h[i] & 1023;
        const float want = e == 31 ? (m ? kNan : kInf) : std::ldexp(static_cast<float>(e ? m + 1024 : m), (e ? e : 1) - 25);
        wrong += !same(h[i] >> 15 ? -want : want, f[i]);
        wrong += !(std::isnan(f[i]) ? (back[i] & 0x7c00) == 0x7c00 && (back[i] & 0x3ff) != 0 : back[i] == h[i]);
        wrong += !same(g[i], std::bit_cast<float>(static_cast<std::uint32_t>(h[i]) << 16));
      }
    }
    for (std::uint32_t base = 0; base < 256; base += 32) {
      std::uint8_t e[32];
      float f[48];
      for (std::uint32_t i = 0; i < 32; ++i) e[i] = static_cast<std::uint8_t>(base + i);
      p.from_e4m3(e, f);
      for (int i = 0; i < 32; ++i) {
        const int x = e[i] >> 3 & 15, m = e[i] & 7;
        float want = (e[i] & 127) == 127 ? kNan : std::ldexp(static_cast<float>(x ? m + 8 : m), (x ? x : 1) - 10 - 8);
        if (e[i] >> 7) want = -want;
        wrong += !same(want, f[16 + i]) + (i < 16 && !same(want, f[i]));
      }
    }
    CHECK(wrong == 0);
    const float x[16] = {65519.996f, 65520.0f,  2.9802322e-8f, 2.9802326e-8f, 1.0004883f,
                         1.0014648f, -65520.0f, 1e-45f,        8.940697e-8f};
    std::uint16_t y[16];
    p.to_half(x, y);
    CHECK(y[0] == 0x7bff);
    CHECK(y[1] == 0x7c00);
    CHECK(y[2] == 0x0000);  // the tie at 2^-25 goes to even
    CHECK(y[3] == 0x0001);
    CHECK(y[4] == 0x3c00);  // 1 + 2^-11: tie to even
    CHECK(y[5] == 0x3c02);  // 1 + 3 * 2^-11: tie to even
    CHECK(y[6] == 0xfc00);
    CHECK(y[7] == 0x0000);
    CHECK(y[8] == 0x0002);  // 1.5 * 2^-24: tie to even
  }
}

TEST_CASE("every operation gives the bits of the generic lanes") {
  const std::vector<float> v = edges();
  const auto& g = test::probe(Isa::generic);
  for (Isa isa : isas()) {
    const auto& p = test::probe(isa);
    int wrong = 0;
    const test::Probe::Unary test::Probe::* unary[] = {
        &test::Probe::exp,       &test::Probe::log, &test::Probe::tanh, &test::Probe::sigmoid, &test::Probe::silu,
        &test::Probe::gelu_tanh, &test::Probe::sin, &test::Probe::cos,  &test::Probe::round,   &test::Probe::floor,
        &test::Probe::sqrt,      &test::Probe::abs, &test::Probe::neg,  &test::Probe::integer};
    std::vector<float> y(v.size()), z(v.size());
    for (auto f : unary) {
      (p.*f)(v.data(), static_cast<std::int64_t>(v.size()), y.data());
      (g.*f)(v.data(), static_cast<std::int64_t>(v.size()), z.data());
      for (std::size_t i = 0; i < v.size(); ++i) wrong += !same(y[i], z[i]);
    }
    CHECK(wrong == 0);
    std::mt19937 rng(2);
    for (int round = 0; round < 500; ++round) {
      float a[16], b[16], c[16], s[112], t[112];
      for (int i = 0; i < 16; ++i)
        a[i] = v[rng() % v.size()], b[i] = v[rng() % (round % 2 ? v.size() : 40)], c[i] = v[rng() % v.size()];
      p.binary(a, b, s);
      g.binary(a, b, t);
      for (int i = 0; i < 112; ++i) wrong += !same(s[i], t[i]);
      p.fused(a, b, c, s);
      g.fused(a, b, c, t);
      for (int i = 0; i < 32; ++i) wrong += !same(s[i], t[i]);
      std::uint16_t h[16], k[16];
      p.to_half(a, h);
      g.to_half(a, k);
      wrong += std::memcmp(h, k, sizeof h) != 0;
      wrong += p.masks(a, b, round % 18) != g.masks(a, b, round % 18);
      wrong += !same(p.sum(c), g.sum(c)) + !same(p.max_lane(c), g.max_lane(c));
    }
    CHECK(wrong == 0);
  }
}
