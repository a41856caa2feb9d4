// The row kernels, written once on sixteen lanes. Included by kernels_<isa>.cc after the macro that names the instruction set.
#include "backends/cpu/kernels.h"
#include "backends/simd/math.h"

namespace dsv31::inline v1::cpu::DSV31_ISA {
namespace {
using namespace simd::DSV31_ISA;

void rms_norm(const float* x, const float* weight, float eps, std::int64_t n, float* y) {
  V16 squares = zero();
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const V16 v = load(x + i);
    squares = fma(v, v, squares);
  }
  if (i < n) {
    const V16 v = load_n(x + i, n - i, 0);
    squares = fma(v, v, squares);
  }
  const V16 scale = set1(1.0f / sqrt(sum(squares) / static_cast<float>(n) + eps));
  for (i = 0; i + 16 <= n; i += 16) store(y + i, mul(load(weight + i), mul(load(x + i), scale)));
  if (i < n) store_n(y + i, n - i, mul(load_n(weight + i, n - i, 0), mul(load_n(x + i, n - i, 0), scale)));
}

void quantize(const float* x, std::int64_t n, std::int64_t padded, std::int8_t* q, float* scale, float* side,
              std::int16_t* sums) {
  constexpr std::int32_t kTiny = 0x03800000, kInfinity = 0x7f800000;  // 2^-120
  std::int64_t i = 0;
  for (; i < n; ++scale, ++side) {
    const std::int64_t end = i + kGroup < n ? i + kGroup : n;
    // As integers the magnitudes of floats keep their order, and a NaN is above all.
    I16 largest = set1i(0);
    std::int64_t j = i;
    for (; j + 16 <= end; j += 16) largest = max(largest, as_int(abs(load(x + j))));
    if (j < end) largest = max(largest, as_int(abs(load_n(x + j, end - j, 0))));
    const std::int32_t bits = max_lane(largest);
    const float absmax = first(as_float(set1i(bits)));
    const bool usable = bits >= kTiny && bits < kInfinity;
    *scale = bits < kTiny ? 0.0f : usable ? absmax / 127.0f : absmax;
    const V16 inverse = set1(usable ? 127.0f / absmax : 0.0f);
    std::int32_t total = 0;
    for (; i < end; i += 16) {
      const V16 v = i + 16 <= end ? load(x + i) : load_n(x + i, end - i, 0);
      const I16 rounded = usable ? to_int(mul(v, inverse)) : set1i(0);
      store_i8(q + i, rounded);
      const std::int32_t of_16 = sum(rounded);
      sums[i / 16] = static_cast<std::int16_t>(of_16);
      total += of_16;
    }
    *side = *scale * static_cast<float>(total);
    i = end;
  }
  for (i = (n + 15) / 16 * 16; i < padded; i += 16) {
    store_i8(q + i, set1i(0));
    sums[i / 16] = 0;
  }
}

void remainder(const float* x, const std::int8_t* q, const float* scale, std::int64_t n, float* y) {
  for (std::int64_t begin = 0; begin < n; begin += kGroup, ++scale) {
    const std::int64_t end = begin + kGroup < n ? begin + kGroup : n;
    const float s = *scale;
    for (std::int64_t i = begin; i < end; ++i) y[i] = __builtin_fmaf(-static_cast<float>(q[i]), s, x[i]);
  }
}

template <V16 (*F)(V16)>
DSV31_LANES void gate_rows(const float* gate, const float* gate_bias, const float* up, const float* up_bias, std::int64_t n,
                           float* y) {
  for (std::int64_t i = 0; i < n; i += 16) {
    const std::int64_t m = n - i;
    V16 g = m >= 16 ? load(gate + i) : load_n(gate + i, m, 0);
    V16 u = m >= 16 ? load(up + i) : load_n(up + i, m, 0);
    if (gate_bias != nullptr) g = add(g, m >= 16 ? load(gate_bias + i) : load_n(gate_bias + i, m, 0));
    if (up_bias != nullptr) u = add(u, m >= 16 ? load(up_bias + i) : load_n(up_bias + i, m, 0));
    const V16 r = mul(F(g), u);
    if (m >= 16)
      store(y + i, r);
    else
      store_n(y + i, m, r);
  }
}
DSV31_LANES V16 do_silu(V16 x) { return silu(x); }
DSV31_LANES V16 do_gelu(V16 x) { return gelu_tanh(x); }

void gated(Activation activation, const float* gate, const float* gate_bias, const float* up, const float* up_bias,
           std::int64_t n, float* y) {
  if (activation == Activation::silu)
    gate_rows<do_silu>(gate, gate_bias, up, up_bias, n, y);
  else
    gate_rows<do_gelu>(gate, gate_bias, up, up_bias, n, y);
}

void add_rows(const float* a, const float* b, std::int64_t n, float* y) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) store(y + i, add(load(a + i), load(b + i)));
  if (i < n) store_n(y + i, n - i, add(load_n(a + i, n - i, 0), load_n(b + i, n - i, 0)));
}

void add_scaled(float w, const float* x, std::int64_t n, float* y) {
  const V16 factor = set1(w);
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) store(y + i, fma(factor, load(x + i), load(y + i)));
  if (i < n) store_n(y + i, n - i, fma(factor, load_n(x + i, n - i, 0), load_n(y + i, n - i, 0)));
}

void scale_row(float s, const float* x, std::int64_t n, float* y) {
  const V16 factor = set1(s);
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) store(y + i, mul(factor, load(x + i)));
  if (i < n) store_n(y + i, n - i, mul(factor, load_n(x + i, n - i, 0)));
}

void soft_cap(float cap, std::int64_t n, float* x) {
  const V16 c = set1(cap);
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) store(x + i, mul(c, tanh(div(load(x + i), c))));
  if (i < n) store_n(x + i, n - i, mul(c, tanh(div(load_n(x + i, n - i, 0), c))));
}

void softmax(std::int64_t n, float* x) {
  const V16 none = set1(-__builtin_inff());
  V16 largest = none;
  for (std::int64_t i = 0; i < n; i += 16) largest = max(largest, load_n(x + i, n - i, -__builtin_inff()));
  const V16 top = set1(max_lane(largest));
  V16 total = zero();
  for (std::int64_t i = 0; i < n; i += 16) {
    const V16 e = select(first_lanes(n - i), exp(sub(load_n(x + i, n - i, 0), top)), zero());
    total = add(total, e);
    store_n(x + i, n - i, e);
  }
  const V16 sums = set1(sum(total));
  for (std::int64_t i = 0; i < n; i += 16) store_n(x + i, n - i, div(load_n(x + i, n - i, 0), sums));
}

void sigmoid_row(std::int64_t n, float* x) {
  for (std::int64_t i = 0; i < n; i += 16) store_n(x + i, n - i, sigmoid(load_n(x + i, n - i, 0)));
}

}  // namespace

extern const RowKernels kRowKernels;
const RowKernels kRowKernels = {rms_norm,   quantize,  remainder, gated,   add_rows,
                                add_scaled, scale_row, soft_cap,  softmax, sigmoid_row};

}  // namespace dsv31::inline v1::cpu::DSV31_ISA
