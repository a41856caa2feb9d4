// One chunk of attention: scores, softmax, weighted values (FlashAttention's partial, Dao et al. 2022, over the absolute 256
// keys). Keys outside a row's range never enter it: not even as zeros, since a stale slot may hold anything. Included only by the
// files of one instruction set, after lanes.h.
#pragma once

#include "backends/cpu/attention_kernels.h"
#include "backends/cpu/attention_layout.h"
#include "backends/simd/math.h"

namespace dsv31::inline v1::cpu::DSV31_ISA {

DSV31_LANES std::int64_t lesser(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
DSV31_LANES std::int64_t greater(std::int64_t a, std::int64_t b) { return a < b ? b : a; }

// scores[i][64 * block + t] = q_i . k_t for the rows that see a key of the block; k (k_width, 64)
template <class B>
static void block_scores(const ChunkArgs& x, std::int64_t block, const B* keys) {
  constexpr std::int64_t kDepth = 128;  // 128 x 64 floats stay in the first-level cache over the rows
  for (std::int64_t d = 0; d < x.k_width; d += kDepth)
    for (std::int64_t i = 0; i < x.m; i += kRows) {
      const std::int64_t m = lesser(kRows, x.m - i);
      bool seen = false;
      for (std::int64_t r = i; r < i + m; ++r) seen |= x.begin[r] < (block + 1) * kBlock && x.end[r] > block * kBlock;
      if (!seen) continue;
      const Product p{.a = x.q + i * x.q_stride + d,
                      .lda = x.q_stride,
                      .b = keys + d * kBlock,
                      .ldb = kBlock,
                      .k = lesser(kDepth, x.k_width - d),
                      .c = x.scores + i * kChunk + block * kBlock,
                      .ldc = kChunk,
                      .first = d == 0};
      product<B>(m, p, 0, kBlock);
    }
}

// scores (256) of one row become p_t = exp(s_t - m); part[0] = m, part[1] = l
static void softmax(const ChunkArgs& x, float* scores, std::int64_t begin, std::int64_t end, float* part) {
  const V16 lowest = set1(-__builtin_inff()), scale = set1(x.scale), cap = set1(x.softcap);
  V16 top = lowest;
  const std::int64_t first = begin / 16 * 16;
  for (std::int64_t t = first; t < end; t += 16) {
    V16 s = mul(load(scores + t), scale);
    if (x.softcap > 0) s = mul(cap, tanh(div(s, cap)));
    if (t < begin || t + 16 > end) s = select(mask_and(first_lanes(end - t), mask_not(first_lanes(begin - t))), s, lowest);
    store(scores + t, s);
    top = max(top, s);
  }
  const float m = max_lane(top);
  V16 sums = zero();
  for (std::int64_t t = first; t < end; t += 16) {
    V16 p = exp(sub(load(scores + t), set1(m)));
    if (t < begin || t + 16 > end) p = select(mask_and(first_lanes(end - t), mask_not(first_lanes(begin - t))), p, zero());
    store(scores + t, p);
    sums = add(sums, p);
  }
  part[0] = m;
  part[1] = sum(sums);
}

// o_i += sum over the row's keys t of this block, ascending, of p_t v_t; v (64, ld). Rows of a register tile differ in their
// range at its ends only: what not all of them see, each adds alone, in its place of the order.
template <class B>
static void block_values(const ChunkArgs& x, std::int64_t block, const B* values, std::int64_t ld) {
  const std::int64_t width = (x.v_width + 15) / 16 * 16, base = block * kBlock;
  for (std::int64_t column = 0; column < width; column += 64) {  // 64 x 64 values stay in the first-level cache over the rows
    const std::int64_t last = lesser(column + 64, width);
    for (std::int64_t i = 0; i < x.m; i += kRows) {
      const std::int64_t m = lesser(kRows, x.m - i);
      std::int64_t begin[kRows], end[kRows], common_begin = 0, common_end = kBlock;
      for (std::int64_t r = 0; r < m; ++r) {
        begin[r] = greater(x.begin[i + r] - base, 0);
        end[r] = lesser(x.end[i + r] - base, kBlock);
        common_begin = greater(common_begin, begin[r]);
        common_end = lesser(common_end, end[r]);
      }
      const auto add_keys = [&](std::int64_t r, std::int64_t rows, std::int64_t t0, std::int64_t t1) {
        if (t0 >= t1) return;
        const Product p{.a = x.scores + (i + r) * kChunk + base + t0,
                        .lda = kChunk,
                        .b = values + t0 * ld,
                        .ldb = ld,
                        .k = t1 - t0,
                        .c = x.part + (i + r) * x.part_stride + kPartHead,
                        .ldc = x.part_stride,
                        .first = false};
        product<B>(rows, p, column, last);
      };
      if (common_begin >= common_end) {
        for (std::int64_t r = 0; r < m; ++r) add_keys(r, 1, begin[r], end[r]);
        continue;
      }
      for (std::int64_t r = 0; r < m; ++r) add_keys(r, 1, begin[r], common_begin);
      add_keys(0, m, common_begin, common_end);
      for (std::int64_t r = 0; r < m; ++r) add_keys(r, 1, common_end, end[r]);
    }
  }
}

template <class T>
static void chunk_of(const ChunkArgs& x) {
  constexpr bool kFloat = sizeof(T) == 4;
  const bool few = x.m <= kRows;  // one register tile converts while it loads
  for (std::int64_t b = 0; b < kChunkBlocks; ++b) {
    if (!x.keys[b]) continue;
    const T* keys = reinterpret_cast<const T*>(x.keys[b]);
    if (!x.latent && (kFloat || few)) {
      block_scores(x, b, keys);
      continue;
    }
    if (x.latent)
      transpose_block(keys, x.value_stride, x.k_width, x.key_scratch);
    else
      for (std::int64_t e = 0; e < x.k_width * kBlock; e += 16) store(x.key_scratch + e, load_b(keys + e));
    block_scores(x, b, static_cast<const float*>(x.key_scratch));
  }
  const std::int64_t width = (x.v_width + 15) / 16 * 16;
  std::int64_t first = kChunk, last = 0;
  for (std::int64_t i = 0; i < x.m; ++i) {
    float* part = x.part + i * x.part_stride;
    softmax(x, x.scores + i * kChunk, x.begin[i], x.end[i], part);
    for (std::int64_t d = 0; d < width; d += 16) store(part + kPartHead + d, zero());
    first = lesser(first, x.begin[i]);
    last = greater(last, x.end[i]);
  }
  for (std::int64_t b = 0; b < kChunkBlocks; ++b) {
    if (!x.values[b]) continue;
    const T* values = reinterpret_cast<const T*>(x.values[b]);
    if (width == x.v_width && (kFloat || few)) {
      block_values(x, b, values, x.value_stride);
      continue;
    }
    const std::int64_t begin = greater(first - b * kBlock, 0), end = lesser(last - b * kBlock, kBlock);
    widen_rows(values, x.value_stride, x.v_width, begin, end, x.value_scratch, width);
    block_values(x, b, static_cast<const float*>(x.value_scratch), width);
  }
}

static void chunk(const ChunkArgs& x) { x.half ? chunk_of<std::uint16_t>(x) : chunk_of<float>(x); }

// M = max(m1, m2), a = exp(m1 - M), b = exp(m2 - M): l = fma(l1, a, l2 * b), o = fma(o1, a, o2 * b)
static void merge(float* into, const float* from, std::int64_t v_width) {
  const float m = into[0] > from[0] ? into[0] : from[0];
  const V16 a = exp(set1(into[0] - m)), b = exp(set1(from[0] - m));
  into[0] = m;
  into[1] = fma(into[1], first(a), from[1] * first(b));
  for (std::int64_t d = kPartHead; d < kPartHead + v_width; d += 16)
    store(into + d, fma(load(into + d), a, mul(load(from + d), b)));
}

static void turn_block(const std::byte* src, std::int64_t stride, std::int64_t width, bool half, float* dst) {
  half ? transpose_block(reinterpret_cast<const std::uint16_t*>(src), stride, width, dst)
       : transpose_block(reinterpret_cast<const float*>(src), stride, width, dst);
}

static void widen_block(const std::byte* src, std::int64_t stride, std::int64_t width, bool half, float* dst, std::int64_t ld) {
  half ? widen_rows(reinterpret_cast<const std::uint16_t*>(src), stride, width, 0, kBlock, dst, ld)
       : widen_rows(reinterpret_cast<const float*>(src), stride, width, 0, kBlock, dst, ld);
}

static void block_product(std::int64_t m, std::int64_t k, const float* a, std::int64_t lda, const float* b, float* c,
                          bool first) {
  for (std::int64_t i = 0; i < m; i += kRows)
    product<float>(
        lesser(kRows, m - i),
        {.a = a + i * lda, .lda = lda, .b = b, .ldb = kBlock, .k = k, .c = c + i * kBlock, .ldc = kBlock, .first = first}, 0,
        kBlock);
}

static void finish(const float* part, std::int64_t v_width, float* out) {
  const V16 l = set1(part[1]);
  for (std::int64_t d = 0; d < v_width; d += 16) store_n(out + d, lesser(v_width - d, 16), div(load(part + kPartHead + d), l));
}

}  // namespace dsv31::inline v1::cpu::DSV31_ISA
