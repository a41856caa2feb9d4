// Frequencies and scales against the numbers of the papers and of the reference implementation.
#include "lib/model/rope.h"

#include <cmath>

#include "tests/catch.h"

using namespace dsv31;
using namespace dsv31::model;

namespace {

// Six float32 roundings and a power good to one unit stand between the formula and the value.
bool near(float got, double expected) {
  return std::fabs(static_cast<double>(got) - expected) <= 8 * 0x1p-24 * std::fabs(expected);
}

RopeParameters deepseek_v3() {
  return {.rope_type = RopeType::yarn,
          .rope_theta = 10000,
          .factor = 40,
          .original_max_position_embeddings = 4096,
          .mscale = 1,
          .mscale_all_dim = 1};
}

}  // namespace

TEST_CASE("plain frequencies are theta to the power -2i/dim") {
  const std::vector<float> f = inv_freq({.rope_theta = 10000}, 8);
  REQUIRE(f.size() == 4);
  CHECK(f[0] == 1.0f);
  CHECK(near(f[1], 0.1));
  CHECK(near(f[2], 0.01));
  CHECK(near(f[3], 0.001));
}

TEST_CASE("linear scaling divides every frequency") {
  const std::vector<float> f = inv_freq({.rope_type = RopeType::linear, .rope_theta = 10000, .factor = 8}, 8);
  CHECK(f[0] == 0.125f);
  CHECK(near(f[3], 0.000125));
}

TEST_CASE("YaRN frequencies of DeepSeek-V3 have their golden values") {
  const std::vector<float> f = inv_freq(deepseek_v3(), 64);
  REQUIRE(f.size() == 32);
  CHECK(f[0] == 1.0f);
  CHECK(near(f[10], 0.05623413252));
  CHECK(near(f[11], 0.0390069266));
  CHECK(near(f[16], 0.0055));
  CHECK(near(f[22], 1.77827941e-4));
  CHECK(near(f[23], 3.33380358e-5));
  CHECK(near(f[31], 3.33380358e-6));
}

TEST_CASE("YaRN with an empty ramp does not divide by zero") {
  RopeParameters r = deepseek_v3();
  r.beta_fast = r.beta_slow = 1e6;  // both corrections fall below dimension 0
  for (float f : inv_freq(r, 64)) CHECK((std::isfinite(f) && f > 0));
}

TEST_CASE("the softmax scale of DeepSeek is 192^-0.5 times the square of m") {
  CHECK(std::fabs(yarn_mscale(40, 1) - 1.36888795) < 1e-8);
  CHECK(std::fabs(yarn_mscale(40, 0.707) - 1.26080378) < 1e-8);
  CHECK(yarn_mscale(1, 1) == 1);
  CHECK(std::fabs(mla_scale(deepseek_v3(), 192) - 0.135233779) < 1e-9);
  RopeParameters lite = deepseek_v3();
  lite.mscale = lite.mscale_all_dim = 0.707;
  CHECK(std::fabs(mla_scale(lite, 192) - 0.114721387) < 1e-9);
  lite.mscale_all_dim = 0;
  CHECK(mla_scale(lite, 256) == 0.0625);
  CHECK(mla_scale({}, 256) == 0.0625);
}

TEST_CASE("cos and sin carry a factor only under YaRN, and none where the two mscales agree") {
  CHECK(attention_factor({}) == 1);
  CHECK(attention_factor({.rope_type = RopeType::linear, .factor = 8}) == 1);
  CHECK(attention_factor(deepseek_v3()) == 1);
  RopeParameters r = deepseek_v3();
  r.mscale = r.mscale_all_dim = 0;
  CHECK(std::fabs(attention_factor(r) - 1.36888795) < 1e-8);
  r.attention_factor = 1.25;
  CHECK(attention_factor(r) == 1.25);
  r = deepseek_v3();
  r.mscale = 0.707;
  CHECK(std::fabs(attention_factor(r) - 1.26080378 / 1.36888795) < 1e-8);
}

TEST_CASE("llama3 scaling keeps short wavelengths, divides long ones and blends between") {
  // Llama 3.1: base 500,000, head 128, factor 8 past 8,192 positions, low 1, high 4. Wavelengths below 2,048 stay (i <= 28),
  // above 8,192 are divided by 8 (i >= 35).
  const RopeParameters r{.rope_type = RopeType::llama3,
                         .rope_theta = 500000,
                         .factor = 8,
                         .original_max_position_embeddings = 8192,
                         .low_freq_factor = 1,
                         .high_freq_factor = 4};
  const std::vector<float> f = inv_freq(r, 128), plain = inv_freq({.rope_theta = 500000}, 128);
  CHECK(f[28] == plain[28]);
  CHECK(f[35] == plain[35] / 8);
  CHECK(f[63] == plain[63] / 8);
  // i = 31: f = 500000^(-62/128) = 0.0017358..., wavelength 3619.7, smooth = (8192/3619.7 - 1)/3 = 0.4210495
  const double base = std::pow(500000.0, -62.0 / 128), smooth = (8192 * base / (2 * 3.14159265358979323846) - 1) / 3;
  CHECK(smooth > 0.40);
  CHECK(smooth < 0.45);
  CHECK(std::fabs(f[31] - (base * smooth + base / 8 * (1 - smooth))) <= 16 * 0x1p-24 * base);
}
