// Included by probe_<isa>.cc, which define DSV31_ISA_... and DSV31_PROBE, the table's name.
#include "backends/simd/math.h"
#include "tests/backends/simd/probe.h"

namespace dsv31::test {
namespace {
using namespace simd::DSV31_ISA;

template <V16 (*F)(V16)>
void map(const float* x, std::int64_t n, float* y) {
  for (std::int64_t i = 0; i < n; i += 16) store(y + i, F(load(x + i)));
}
V16 do_exp(V16 x) { return exp(x); }
V16 do_log(V16 x) { return log(x); }
V16 do_tanh(V16 x) { return tanh(x); }
V16 do_sigmoid(V16 x) { return sigmoid(x); }
V16 do_silu(V16 x) { return silu(x); }
V16 do_gelu(V16 x) { return gelu_tanh(x); }
V16 do_sin(V16 x) {
  V16 s, c;
  sincos(x, s, c);
  return s;
}
V16 do_cos(V16 x) {
  V16 s, c;
  sincos(x, s, c);
  return c;
}
V16 do_round(V16 x) { return round(x); }
V16 do_floor(V16 x) { return floor(x); }
V16 do_sqrt(V16 x) { return sqrt(x); }
V16 do_abs(V16 x) { return abs(x); }
V16 do_neg(V16 x) { return neg(x); }
V16 do_integer(V16 x) { return to_float(to_int(x)); }

void binary(const float* pa, const float* pb, float* out) {
  const V16 a = load(pa), b = load(pb);
  store(out, add(a, b));
  store(out + 16, sub(a, b));
  store(out + 32, mul(a, b));
  store(out + 48, div(a, b));
  store(out + 64, max(a, b));
  store(out + 80, min(a, b));
  store(out + 96, select(less(a, b), a, b));
}
void fused(const float* a, const float* b, const float* c, float* out) {
  store(out, fma(load(a), load(b), load(c)));
  store(out + 16, fnma(load(a), load(b), load(c)));
}
void to_half(const float* x, std::uint16_t* y) { store_f16(y, load(x)); }
void from_half(const std::uint16_t* x, float* y) { store(y, load_f16(x)); }
void from_bfloat(const std::uint16_t* x, float* y) { store(y, load_bf16(x)); }
void from_e4m3(const std::uint8_t* x, float* y) {
  store(y, load_e4m3(x));
  V16 a, b;
  load_e4m3(x, a, b);
  store(y + 16, a);
  store(y + 32, b);
}
float do_sum(const float* x) { return sum(load(x)); }
float do_max(const float* x) { return max_lane(load(x)); }
std::int32_t sum_int(const std::int32_t* x) { return sum(loadi(x)); }
std::int32_t max_int(const std::int32_t* a, const std::int32_t* b) { return max_lane(max(loadi(a), loadi(b))); }
void narrow(const std::int32_t* x, std::int8_t* y) { store_i8(y, loadi(x)); }
void widen(const std::int8_t* x, float* s, float* u) {
  store(s, to_float(load_i8(x)));
  store(u, to_float(load_u8(reinterpret_cast<const std::uint8_t*>(x))));
}
void partial(const float* x, std::int64_t n, float fill, float* loaded, float* stored) {
  const V16 v = load_n(x, n, fill);
  store(loaded, v);
  store_n(stored, n, v);
}
std::uint32_t masks(const float* pa, const float* pb, std::int64_t n) {
  const V16 a = load(pa), b = load(pb);
  return mask_bits(mask_and(mask_and(mask_or(less(a, b), equal(a, b)), mask_not(is_nan(a))), first_lanes(n)));
}
}  // namespace

extern const Probe DSV31_PROBE;
const Probe DSV31_PROBE = {
    map<do_exp>, map<do_log>,   map<do_tanh>,  map<do_sigmoid>, map<do_silu>, map<do_gelu>, map<do_sin>,
    map<do_cos>, map<do_round>, map<do_floor>, map<do_sqrt>,    map<do_abs>,  map<do_neg>,  map<do_integer>,
    binary,      fused,         to_half,       from_half,       from_bfloat,  from_e4m3,    do_sum,
    do_max,      sum_int,       max_int,       narrow,          widen,        partial,      masks};

}  // namespace dsv31::test
