// Literal results of the row kernels, and equality of all instruction sets over lengths.
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/kernels.h"
#include "tests/backends/cpu/rig.h"
#include "tests/catch.h"

using namespace dsv31;
using simd::Isa;

namespace {
struct Quantized {
  std::vector<std::int8_t> q;
  std::vector<float> scale, side;
  std::vector<std::int16_t> sums;
  bool operator==(const Quantized&) const = default;
};
Quantized quantize(Isa isa, const std::vector<float>& x) {
  const auto n = static_cast<std::int64_t>(x.size()), padded = (n + 127) / 128 * 128;
  Quantized r = {std::vector<std::int8_t>(static_cast<std::size_t>(padded), 99),
                 std::vector<float>(static_cast<std::size_t>((n + 31) / 32), -1.0f),
                 std::vector<float>(static_cast<std::size_t>((n + 31) / 32), -1.0f),
                 std::vector<std::int16_t>(static_cast<std::size_t>(padded / 16), 99)};
  cpu::row_kernels(isa).quantize(x.data(), n, padded, r.q.data(), r.scale.data(), r.side.data(), r.sums.data());
  return r;
}
}  // namespace

TEST_CASE("row kernels give literal results") {
  for (Isa isa : test::isas()) {
    INFO(simd::isa_name(isa));
    const cpu::RowKernels& k = cpu::row_kernels(isa);
    const float x[4] = {1, -1, 7, 7}, w[4] = {1, 2, 0.5f, -1}, b[4] = {1, 1, -7, 1};
    float y[4];
    k.rms_norm(x, w, 0, 4, y);  // mean square 25
    CHECK(std::vector<float>(y, y + 4) == std::vector<float>{0.2f, -0.4f, 0.7f, -1.4f});
    k.add(x, b, 4, y);
    CHECK(std::vector<float>(y, y + 4) == std::vector<float>{2, 0, 0, 8});
    k.add_scaled(0.5f, x, 4, y);
    CHECK(std::vector<float>(y, y + 4) == std::vector<float>{2.5f, -0.5f, 3.5f, 11.5f});
    k.scale(-2, x, 4, y);
    CHECK(std::vector<float>(y, y + 4) == std::vector<float>{-2, 2, -14, -14});
    float same[3] = {5, 5, 5};
    k.softmax(3, same);
    CHECK(same[0] == 1.0f / 3);
    CHECK(same[2] == 1.0f / 3);
    float half[1] = {0};
    k.sigmoid(1, half);
    CHECK(half[0] == 0.5f);
    float cap[2] = {0, 1e6f};
    k.soft_cap(30, 2, cap);
    CHECK(cap[0] == 0.0f);
    CHECK(cap[1] == 30.0f);
    const float gate[2] = {0, 100}, up[2] = {3, 3}, up_bias[2] = {0, -1};
    k.gated(Activation::silu, gate, nullptr, up, up_bias, 2, y);
    CHECK(y[0] == 0.0f);
    CHECK(y[1] == 200.0f);
    k.gated(Activation::gelu_tanh, gate, gate, up, nullptr, 2, y);
    CHECK(y[1] == 600.0f);
  }
}

TEST_CASE("activations are quantised to nearest even with sums, zero past the end") {
  for (Isa isa : test::isas()) {
    std::vector<float> x(40, 0.0f);
    x[0] = 254, x[1] = -254, x[2] = 5, x[3] = 3, x[4] = -1, x[31] = 2;  // scale 2: 127 -127 2.5 1.5 -0.5 1
    x[32] = 1e-38f;                                                     // a group too small to be more than zero
    const Quantized r = quantize(isa, x);
    CHECK(r.scale == std::vector<float>{2, 0});
    CHECK(r.side == std::vector<float>{10, 0});
    CHECK(std::vector<std::int8_t>(r.q.begin(), r.q.begin() + 5) == std::vector<std::int8_t>{127, -127, 2, 2, 0});
    CHECK(r.q[31] == 1);
    CHECK(r.sums == std::vector<std::int16_t>{4, 1, 0, 0, 0, 0, 0, 0});
    for (std::size_t i = 32; i < 128; ++i) CHECK(r.q[i] == 0);

    std::vector<float> bad(256, 1.0f);
    bad[3] = std::numeric_limits<float>::quiet_NaN();
    bad[200] = -std::numeric_limits<float>::infinity();
    const Quantized s = quantize(isa, bad);
    CHECK(std::isnan(s.scale[0]));
    CHECK(s.scale[6] == std::numeric_limits<float>::infinity());
    CHECK(std::isnan(s.side[0]));
    CHECK(std::isnan(s.side[6]));
    for (std::size_t i = 0; i < 256; ++i) CHECK(s.q[i] == ((i < 32 || (i >= 192 && i < 224)) ? 0 : 127));
  }
}

TEST_CASE("a second plane of int8 holds what rounding the first left") {
  for (Isa isa : test::isas()) {
    const cpu::RowKernels& k = cpu::row_kernels(isa);
    std::vector<float> x(40, 0.0f), rest(40);
    x[0] = 254, x[2] = 5, x[3] = -3.25f, x[35] = 12.7f;  // scales 2 and 0.1
    const Quantized r = quantize(isa, x);
    k.remainder(x.data(), r.q.data(), r.scale.data(), 40, rest.data());
    CHECK(rest[0] == 0.0f);
    CHECK(rest[2] == 1.0f);   // 5 = 2 * 2 + 1
    CHECK(rest[3] == 0.75f);  // -3.25 = -2 * 2 + 0.75
    CHECK(rest[39] == 0.0f);

    x = test::normal(1000, 4, 2);
    rest.resize(1000);
    const Quantized first = quantize(isa, x);
    k.remainder(x.data(), first.q.data(), first.scale.data(), 1000, rest.data());
    const Quantized second = quantize(isa, rest);
    for (std::size_t i = 0; i < 1000; ++i) {
      const double both = static_cast<double>(first.q[i]) * static_cast<double>(first.scale[i / 32]) +
                          static_cast<double>(second.q[i]) * static_cast<double>(second.scale[i / 32]);
      // Half a step of the second plane, whose absmax is at most half a step of the first; and the float roundings.
      const double step = static_cast<double>(first.scale[i / 32]) / 2 / 127;
      CHECK(std::abs(both - static_cast<double>(x[i])) <= step / 2 * 1.001);
    }
  }
}

TEST_CASE("row kernels give the bits of the generic ones at every length") {
  const cpu::RowKernels& g = cpu::row_kernels(Isa::generic);
  for (Isa isa : test::isas()) {
    const cpu::RowKernels& k = cpu::row_kernels(isa);
    for (std::size_t n : {1, 2, 15, 16, 17, 31, 32, 33, 127, 128, 129, 160, 576, 1000}) {
      INFO(simd::isa_name(isa) << " " << n);
      const auto m = static_cast<std::int64_t>(n);
      const std::vector<float> x = test::normal(n, 1, 3), w = test::normal(n, 2), b = test::normal(n, 3);
      std::vector<float> y(n), z(n);
      const auto check = [&] { CHECK(std::memcmp(y.data(), z.data(), n * 4) == 0); };
      k.rms_norm(x.data(), w.data(), 1e-6f, m, y.data()), g.rms_norm(x.data(), w.data(), 1e-6f, m, z.data()), check();
      for (Activation a : {Activation::silu, Activation::gelu_tanh})
        for (const float* bias : {static_cast<const float*>(nullptr), b.data()})
          k.gated(a, x.data(), bias, w.data(), b.data(), m, y.data()),
              g.gated(a, x.data(), bias, w.data(), b.data(), m, z.data()), check();
      const Quantized r = quantize(isa, x);
      k.remainder(x.data(), r.q.data(), r.scale.data(), m, y.data());
      g.remainder(x.data(), r.q.data(), r.scale.data(), m, z.data()), check();
      k.add(x.data(), w.data(), m, y.data()), g.add(x.data(), w.data(), m, z.data()), check();
      k.add_scaled(0.3f, b.data(), m, y.data()), g.add_scaled(0.3f, b.data(), m, z.data()), check();
      k.scale(0.3f, b.data(), m, y.data()), g.scale(0.3f, b.data(), m, z.data()), check();
      y = z = x, k.soft_cap(3, m, y.data()), g.soft_cap(3, m, z.data()), check();
      y = z = x, k.softmax(m, y.data()), g.softmax(m, z.data()), check();
      y = z = x, k.sigmoid(m, y.data()), g.sigmoid(m, z.data()), check();
      CHECK(quantize(isa, x) == quantize(Isa::generic, x));
    }
  }
}
