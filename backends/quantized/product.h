// The int8 product on packed blocks, canonical and equal in bits for every number of columns. Included after units.h and
// blocks.h.
//
// Two ways over the same arithmetic. Few columns: codes are taken apart in registers and each strip streams once through the
// kernel (packed_product), which leaves memory as the only limit. Many columns: a stretch of K of one or two strips is expanded
// into a panel in L1 (one byte a code, scales ready to multiply) that a register tile then reuses for all columns
// (panel_product); partial sums wait in `out` as the same float32, so the two ways agree.
#pragma once

#include <utility>

#include "backends/quantized/blocks.h"
#include "backends/quantized/isa_kernels.h"

namespace dsv31::inline v1::quantized::DSV31_ISA {

template <DType kType>
inline constexpr Layout kLayout = *layout_of(kType);

template <int kValue>
struct Index {
  static constexpr int value = kValue;
};
template <class F, int... kI>
DSV31_LANES void unroll_each(F& f, std::integer_sequence<int, kI...>) {
  (f(Index<kI>{}), ...);
}
// f(Index<0>), ..., f(Index<kCount - 1>), in line.
template <int kCount, class F>
DSV31_LANES void unroll(F f) {
  unroll_each(f, std::make_integer_sequence<int, kCount>{});
}
#define DSV31_STEP(i) [&](auto i) __attribute__((always_inline))

struct Column {  // one row of activations
  const std::int8_t* q;
  const float* scale;
  const std::int16_t* sums;
};

template <int kStrips, int kColumns>
struct Dots {
  I16 dot[kStrips][kColumns];
  I16 side[kStrips][kColumns];  // sub-scales or minima times the sums of the activations
};

#define DSV31_UNROLL _Pragma("GCC unroll 16")

// Run t (32 k) of a block, a view with the same names as PanelRun.
template <class G, int t>
struct BlockRun {
  const G& g;
  template <int u>
  DSV31_LANES Bytes unit() const {
    return g.template unit<t, u>();
  }
  template <int s>
  DSV31_LANES I16 mult() const {
    return g.template mult<t*(32 / G::kSub) + s>();
  }
  DSV31_LANES I16 pair() const { return g.template pair<t>(); }
};

// dot += sum over 32 k of sub_scale * code * q, exact. q at offset k of every column.
template <class G, class Run, int kStrips, int kColumns>
DSV31_LANES void run_dots(const Run (&w)[kStrips], const Column (&x)[kColumns], std::int64_t k, Dots<kStrips, kColumns>& d) {
  constexpr int kChunk = kInt16Sums ? G::kChunk : G::kSub == 16 ? 4 : 8, kUnitsOfSub = G::kSub == 16 ? 4 : 8;
  if constexpr (G::kSub == 0 && G::kOffset != 0) {
    const I16 offset = set1i(static_cast<std::int32_t>(static_cast<std::uint32_t>(-G::kOffset) << 16 | (-G::kOffset & 0xFFFF)));
    DSV31_UNROLL for (int c = 0; c < kColumns; ++c) {
      d.dot[0][c] = add_pair(d.dot[0][c], offset, x[c].sums + k / 16);
      DSV31_UNROLL for (int r = 1; r < kStrips; ++r) d.dot[r][c] = d.dot[0][c];
    }
  }
  unroll<8 / kChunk>(DSV31_STEP(chunk) {
    Sum s[kStrips][kColumns];
    DSV31_UNROLL for (int r = 0; r < kStrips; ++r) {
      DSV31_UNROLL for (int c = 0; c < kColumns; ++c) s[r][c] = sum_from(G::kSub == 0 ? d.dot[r][c] : zeroi());
    }
    unroll<kChunk>(DSV31_STEP(i) {
      constexpr int kUnit = decltype(chunk)::value * kChunk + decltype(i)::value;
      Bytes unit[kStrips];
      DSV31_UNROLL for (int r = 0; r < kStrips; ++r) unit[r] = w[r].template unit<kUnit>();
      DSV31_UNROLL for (int c = 0; c < kColumns; ++c) {
        const Bytes q = quad(x[c].q + k + 4 * kUnit);
        DSV31_UNROLL for (int r = 0; r < kStrips; ++r) s[r][c] = step<G::kSigned>(s[r][c], unit[r], q);
      }
    });
    DSV31_UNROLL for (int r = 0; r < kStrips; ++r) {
      if constexpr (G::kSub == 0) {
        DSV31_UNROLL for (int c = 0; c < kColumns; ++c) d.dot[r][c] = sum_into(d.dot[r][c], s[r][c]);
      } else {
        const I16 mult = w[r].template mult<decltype(chunk)::value * kChunk / kUnitsOfSub>();
        DSV31_UNROLL for (int c = 0; c < kColumns; ++c) d.dot[r][c] = add_scaled(d.dot[r][c], s[r][c], mult);
      }
    }
  });
  if constexpr (G::kSub != 0 && (G::kOffset != 0 || G::kMin)) {
    DSV31_UNROLL for (int r = 0; r < kStrips; ++r) {
      const I16 pair = w[r].pair();
      DSV31_UNROLL for (int c = 0; c < kColumns; ++c) d.side[r][c] = add_pair(d.side[r][c], pair, x[c].sums + k / 16);
    }
  }
}

template <int kStrips, int kColumns>
DSV31_LANES void clear(Dots<kStrips, kColumns>& d) {
  DSV31_UNROLL for (int r = 0; r < kStrips; ++r) {
    DSV31_UNROLL for (int c = 0; c < kColumns; ++c) d.dot[r][c] = d.side[r][c] = zeroi();
  }
}

constexpr int log2_of(int v) { return v <= 1 ? 0 : 1 + log2_of(v / 2); }

// fma(float(dot), x_scale * scale, acc), and fma(float(-min_dot), x_scale * min_scale, acc) where the format has a minimum.
template <class G>
DSV31_LANES V16 finish(V16 acc, I16 dot, I16 side, V16 scale, V16 min_scale, const Column& x, std::int64_t k) {
  const V16 x_scale = set1(x.scale[k / G::kGroup]);
  if constexpr (G::kSub != 0 && G::kOffset != 0) dot = sub(dot, shl<log2_of(G::kOffset)>(side));
  acc = fma(to_float(dot), mul(x_scale, scale), acc);
  if constexpr (G::kMin && G::kSub != 0) acc = fnma(to_float(side), mul(x_scale, min_scale), acc);
  if constexpr (G::kMin && G::kSub == 0) {  // Q4_1, Q5_1: the minimum is added
    const std::int16_t* sums = x.sums + k / 16;
    acc = fma(set1(static_cast<float>(sums[0] + sums[1])), mul(x_scale, min_scale), acc);
  }
  return acc;
}

template <class G>
DSV31_LANES V16 min_scale_of(const G& g, V16 otherwise) {
  if constexpr (G::kMin) return g.min_scale();
  return otherwise;
}

// out[c] (16) = sum over k of w (cols, 16) * x[c] (cols), one strip, codes taken apart in registers.
template <DType kType, int kColumns>
void packed_product(const std::byte* strip, std::int64_t blocks, const Column (&x)[kColumns], float* out, std::int64_t ld) {
  constexpr int kHalves = kLayout<kType>.block == 32 ? 1 : 2, kLines = kLayout<kType>.record / 64 / kHalves;
  constexpr int kAhead = 1536;  // bytes
  const std::byte *record = strip, *tail = strip + blocks * kLayout<kType>.record;
  V16 acc[kColumns];
  DSV31_UNROLL for (int c = 0; c < kColumns; ++c) acc[c] = set1(0.0f);
  for (std::int64_t b = 0; b < blocks; ++b, record += kLayout<kType>.record, tail += kLayout<kType>.tail) {
    unroll<kHalves>(DSV31_STEP(h) {
      using G = Block<kType, decltype(h)::value>;
      for (int i = 0; i < kLines; ++i) prefetch(record + kAhead + 64 * (decltype(h)::value * kLines + i));
      const G g{record, tail};
      const std::int64_t k = b * kLayout<kType>.block + 128 * decltype(h)::value;
      Dots<1, kColumns> d;
      clear(d);
      unroll<G::kGroup / 32>(DSV31_STEP(t) {
        constexpr int kRun = decltype(t)::value;
        const BlockRun<G, kRun> run[1] = {{g}};
        run_dots<G>(run, x, k + 32 * kRun, d);
      });
      const V16 scale = g.scale(), min_scale = min_scale_of(g, scale);
      DSV31_UNROLL for (int c = 0; c < kColumns; ++c) acc[c] =
          finish<G>(acc[c], d.dot[0][c], d.side[0][c], scale, min_scale, x[c], k);
    });
  }
  DSV31_UNROLL for (int c = 0; c < kColumns; ++c) store(out + c * ld, acc[c]);
}

// One group of one strip, expanded: units, multipliers, pairs, scale, min_scale, 64 bytes each.
template <class S>
struct Panel : Traits<S::kGroup, S::kSub, S::kMin, S::kOffset, S::kSigned, S::kChunk> {
  static constexpr int kUnits = S::kGroup / 4, kMults = S::kSub == 0 ? 0 : S::kGroup / S::kSub;
  static constexpr int kPairs = S::kSub != 0 && (S::kOffset != 0 || S::kMin) ? S::kGroup / 32 : 0;
  static constexpr int kBytes = 64 * (kUnits + kMults + kPairs + 1 + (S::kMin ? 1 : 0));
  const std::byte* at;

  DSV31_LANES V16 scale() const { return load(reinterpret_cast<const float*>(at + 64 * (kUnits + kMults + kPairs))); }
  DSV31_LANES V16 min_scale() const { return load(reinterpret_cast<const float*>(at + 64 * (kUnits + kMults + kPairs + 1))); }

  DSV31_LANES static void expand(const S& g, std::byte* to) {
    unroll<kUnits>(
        DSV31_STEP(i) { store_unit(to + 64 * i.value, g.template unit<decltype(i)::value / 8, decltype(i)::value % 8>()); });
    unroll<kMults>(DSV31_STEP(i) {
      storei(reinterpret_cast<std::int32_t*>(to + 64 * (kUnits + i.value)), g.template mult<decltype(i)::value>());
    });
    unroll<kPairs>(DSV31_STEP(i) {
      storei(reinterpret_cast<std::int32_t*>(to + 64 * (kUnits + kMults + i.value)), g.template pair<decltype(i)::value>());
    });
    float* scales = reinterpret_cast<float*>(to + 64 * (kUnits + kMults + kPairs));
    store(scales, g.scale());
    if constexpr (S::kMin) store(scales + 16, g.min_scale());
  }
};

inline constexpr std::int64_t kPanelDepth = 512;                 // k expanded at a time
inline constexpr std::int64_t kPanelStride = kPanelScratch / 2;  // bytes between the panels of two strips

// Blocks [b, b + count) of one strip into its panel.
template <DType kType>
void expand_blocks(const std::byte* strip, std::int64_t blocks, std::int64_t b, std::int64_t count, std::byte* panel) {
  const std::byte *record = strip + b * kLayout<kType>.record,
                  *tail = strip + blocks * kLayout<kType>.record + b * kLayout<kType>.tail;
  for (std::int64_t i = 0; i < count; ++i, record += kLayout<kType>.record, tail += kLayout<kType>.tail)
    unroll<kLayout<kType>.block == 32 ? 1 : 2>(DSV31_STEP(h) {
      using G = Block<kType, decltype(h)::value>;
      static_assert(Panel<G>::kBytes * (kPanelDepth / G::kGroup) <= kPanelStride);
      Panel<G>::expand(G{record, tail}, panel);
      panel += Panel<G>::kBytes;
    });
}

template <class P>
struct PanelRun {
  const std::byte *units, *mults, *pairs;
  template <int u>
  DSV31_LANES Bytes unit() const {
    return load_unit(units + 64 * u);
  }
  template <int s>
  DSV31_LANES I16 mult() const {
    return dwords(mults + 64 * s);
  }
  DSV31_LANES I16 pair() const { return dwords(pairs); }
};

// out[c] (16 a strip) += w (depth, 16 a strip) * x[c] from k on, from panels.
template <class P, int kStrips, int kColumns>
void panel_product(const std::byte* panel, std::int64_t k, std::int64_t groups, const Column (&x)[kColumns], float* out,
                   std::int64_t ld) {
  for (std::int64_t i = 0; i < groups; ++i, panel += P::kBytes, k += P::kGroup) {
    Dots<kStrips, kColumns> d;
    clear(d);
    for (int t = 0; t < P::kGroup / 32; ++t) {
      PanelRun<P> run[kStrips];
      DSV31_UNROLL for (int r = 0; r < kStrips; ++r) {
        const std::byte* at = panel + r * kPanelStride;
        run[r] = {at + 512 * t, at + 64 * (P::kUnits + t * P::kMults / (P::kGroup / 32)), at + 64 * (P::kUnits + P::kMults + t)};
      }
      run_dots<P>(run, x, k + 32 * t, d);
    }
    DSV31_UNROLL for (int r = 0; r < kStrips; ++r) {
      const P g{{}, panel + r * kPanelStride};
      const V16 scale = g.scale(), min_scale = min_scale_of(g, scale);
      DSV31_UNROLL for (int c = 0; c < kColumns; ++c) {
        float* to = out + c * ld + 16 * r;
        store(to, finish<P>(load(to), d.dot[r][c], d.side[r][c], scale, min_scale, x[c], k));
      }
    }
  }
}

DSV31_LANES Column column(const cpu::MatmulArgs& a, std::int64_t j) {
  const std::int64_t row = a.rows == nullptr ? j : a.rows[j];
  return {a.x->q + row * a.x->q_stride, a.x->scale + row * a.x->scale_stride, a.x->sums + row * a.x->sum_stride};
}

// Columns [j, m) of one strip in steps of kColumns, then of half as many.
template <DType kType, int kColumns>
DSV31_LANES void packed_columns(const cpu::MatmulArgs& a, const std::byte* strip, std::int64_t blocks, std::int64_t j,
                                float* out) {
  for (; j + kColumns <= a.m; j += kColumns) {
    Column x[kColumns];
    for (int c = 0; c < kColumns; ++c) x[c] = column(a, j + c);
    packed_product<kType, kColumns>(strip, blocks, x, out + j * a.ld, a.ld);
  }
  if constexpr (kColumns > 1) packed_columns<kType, kColumns / 2>(a, strip, blocks, j, out);
}

template <class P, int kStrips, int kColumns>
DSV31_LANES void panel_columns(const cpu::MatmulArgs& a, std::int64_t k, std::int64_t groups, std::int64_t j, float* out) {
  for (; j + kColumns <= a.m; j += kColumns) {
    Column x[kColumns];
    for (int c = 0; c < kColumns; ++c) x[c] = column(a, j + c);
    panel_product<P, kStrips, kColumns>(a.scratch, k, groups, x, out + j * a.ld, a.ld);
  }
  if constexpr (kColumns > 1)
    panel_columns<P, kStrips, (kColumns > 4 ? kColumns * 2 / 3 : kColumns) / (kColumns > 4 ? 1 : 2)>(a, k, groups, j, out);
}

template <DType kType, int kStrips>
DSV31_LANES void panel_strips(const cpu::MatmulArgs& a, const std::byte* strip, std::int64_t pitch, float* out) {
  using P = Panel<Block<kType, 0>>;
  const std::int64_t blocks = a.w->desc.cols / kLayout<kType>.block;
  for (std::int64_t j = 0; j < a.m; ++j)
    for (int r = 0; r < kStrips; ++r) store(out + j * a.ld + 16 * r, set1(0.0f));
  for (std::int64_t b = 0; b < blocks; b += kPanelDepth / kLayout<kType>.block) {
    const std::int64_t left = blocks - b,
                       count = left < kPanelDepth / kLayout<kType>.block ? left : kPanelDepth / kLayout<kType>.block;
    for (int r = 0; r < kStrips; ++r) expand_blocks<kType>(strip + r * pitch, blocks, b, count, a.scratch + r * kPanelStride);
    panel_columns<P, kStrips, P::kSub == 0 ? kPanelColumns : kPanelColumnsScaled>(
        a, b * kLayout<kType>.block, count * (kLayout<kType>.block / P::kGroup), 0, out);
  }
}

inline constexpr std::int64_t kFewColumns = 8;

template <DType kType>
void matmul(const cpu::MatmulArgs& a) {
  const std::int64_t blocks = a.w->desc.cols / kLayout<kType>.block,
                     pitch = blocks * (kLayout<kType>.record + kLayout<kType>.tail);
  const std::byte* strip = a.w->data + a.index * static_cast<std::int64_t>(a.w->stride) + a.strip_begin * pitch;
  const std::int64_t strips = a.strip_end - a.strip_begin;
  if (a.m <= kFewColumns) {
    for (std::int64_t s = 0; s < strips; ++s) packed_columns<kType, 4>(a, strip + s * pitch, blocks, 0, a.out + 16 * s);
  } else {
    std::int64_t s = 0;
    for (; s + kPanelStripsAtOnce <= strips; s += kPanelStripsAtOnce)
      panel_strips<kType, kPanelStripsAtOnce>(a, strip + s * pitch, pitch, a.out + 16 * s);
    if constexpr (kPanelStripsAtOnce > 1)
      for (; s < strips; ++s) panel_strips<kType, 1>(a, strip + s * pitch, pitch, a.out + 16 * s);
  }
  clear_padding(a);
}

}  // namespace dsv31::inline v1::quantized::DSV31_ISA
