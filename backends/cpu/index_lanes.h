// What the indexer of sparse attention takes: the scores of a block of keys, and the norm of its keys.
// Included only by the files of one instruction set, after attention_lanes.h.
#pragma once

#include "backends/cpu/attention_kernels.h"
#include "backends/cpu/attention_product.h"

namespace dsv31::inline v1::cpu::DSV31_ISA {

template <class B>
static void index_of(const IndexArgs& x, const B* keys) {
  V16 sums[kBlock / 16];
  for (V16& s : sums) s = zero();
  for (std::int64_t h = 0; h < x.heads; h += kRows) {
    const std::int64_t m = x.heads - h < kRows ? x.heads - h : kRows;
    const Product p{.a = x.q + h * x.width,
                    .lda = x.width,
                    .b = keys,
                    .ldb = kBlock,
                    .k = x.width,
                    .c = x.scratch,
                    .ldc = kBlock,
                    .first = true};
    product<B>(m, p, 0, kBlock);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < kBlock / 16; ++j)
        sums[j] = fma(set1(x.weights[h + i]), max(load(x.scratch + i * kBlock + 16 * j), zero()), sums[j]);
  }
  for (std::int64_t j = 0; j < kBlock / 16; ++j) store(x.out + 16 * j, add(mul(sums[j], set1(x.scale)), zero()));
}

static void index(const IndexArgs& x) {
  x.half ? index_of(x, reinterpret_cast<const std::uint16_t*>(x.keys)) : index_of(x, reinterpret_cast<const float*>(x.keys));
}

static void layer_norm(const float* x, const float* weight, const float* bias, float eps, std::int64_t n, float* y) {
  V16 total = zero();
  for (std::int64_t i = 0; i < n; i += 16) total = add(total, load_n(x + i, n - i, 0));
  const V16 mean = set1(sum(total) / static_cast<float>(n));
  V16 squares = zero();
  for (std::int64_t i = 0; i < n; i += 16) {
    const V16 d = select(first_lanes(n - i), sub(load_n(x + i, n - i, 0), mean), zero());
    squares = fma(d, d, squares);
  }
  const V16 scale = set1(1.0f / sqrt(sum(squares) / static_cast<float>(n) + eps));
  for (std::int64_t i = 0; i < n; i += 16) {
    const V16 d = mul(sub(load_n(x + i, n - i, 0), mean), scale);
    store_n(y + i, n - i, fma(load_n(weight + i, n - i, 0), d, load_n(bias + i, n - i, 0)));
  }
}

}  // namespace dsv31::inline v1::cpu::DSV31_ISA
