// The int8 product on packed blocks, canonical and equal in bits for every number of columns. Included after units.h and
// blocks.h.
//
// Two ways over the same arithmetic. Few columns: codes are taken apart in registers and each strip streams once through the
// kernel (packed_product), which leaves memory as the only limit. Many columns: a stretch of K of the strips is expanded
// into panels (one byte a code, scales ready to multiply) that a register tile then reuses for a block of columns, one panel in
// L1 (panel_product); partial sums wait in `out` as the same float32, so the two ways agree.
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
    return g.template mult<t * (32 / G::kSub) + s>();
  }
};

// dot += sum over 32 k of sub_scale * code * q, exact. q at offset k of every column.
template <class G, class Run, int kStrips, int kColumns>
DSV31_LANES void run_dots(const Run (&w)[kStrips], const Column (&x)[kColumns], std::int64_t k, Dots<kStrips, kColumns>& d) {
  constexpr int kChunk = kInt16Sums ? G::kChunk : G::kSub == 16 ? 4 : 8, kUnitsOfSub = G::kSub == 16 ? 4 : 8;
  if constexpr (G::kSub == 0 && G::kOffset != 0) {
    const I16 offset = set1i(static_cast<std::int32_t>(static_cast<std::uint32_t>(-G::kOffset) << 16 | (-G::kOffset & 0xFFFF)));
    DSV31_UNROLL for (int r = 0; r < kStrips; ++r) {
      DSV31_UNROLL for (int c = 0; c < kColumns; ++c) d.dot[r][c] =
          add_pair(d.dot[r][c], offset, x[c].sums + static_cast<std::uint64_t>(k) / 16);
    }
  }
  unroll<8 / kChunk>(DSV31_STEP(chunk) {
    Sum s[kStrips][kColumns];
    DSV31_UNROLL for (int r = 0; r < kStrips; ++r) {
      DSV31_UNROLL for (int c = 0; c < kColumns; ++c) s[r][c] = sum_from(G::kSub == 0 ? d.dot[r][c] : zeroi());
    }
    unroll<kChunk>(DSV31_STEP(i) {
      constexpr int kUnit = decltype(chunk)::value * kChunk + decltype(i)::value;
      decltype(w[0].template unit<kUnit>()) unit[kStrips];
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
}

template <int kStrips, int kColumns>
DSV31_LANES void clear(Dots<kStrips, kColumns>& d) {
  DSV31_UNROLL for (int r = 0; r < kStrips; ++r) { DSV31_UNROLL for (int c = 0; c < kColumns; ++c) d.dot[r][c] = zeroi(); }
}

constexpr int log2_of(int v) { return v <= 1 ? 0 : 1 + log2_of(v / 2); }

// What the columns of one strip share at the end of a group.
template <class G>
struct Ending {
  V16 scale, min_scale;
  I16 pairs[G::kGroup / 32];  // sub-scales or minima, to be multiplied by the sums of the activations
  DSV31_LANES explicit Ending(const G& g) : scale(g.scale()) {
    if constexpr (G::kMin != Min::none) min_scale = g.min_scale();
    if constexpr (G::kPairs) unroll<G::kGroup / 32>(DSV31_STEP(t) { pairs[t.value] = g.template pair<decltype(t)::value>(); });
  }
  // fma(float(dot), x_scale * scale, acc), and fma(float(-min_dot), x_scale * min_scale, acc) where the format has a minimum.
  DSV31_LANES V16 finish(V16 acc, I16 dot, const Column& x, std::int64_t k) const {
    const std::int16_t* sums = x.sums + static_cast<std::uint64_t>(k) / 16;
    const V16 x_scale = set1(x.scale[static_cast<std::uint64_t>(k) / G::kGroup]);
    I16 side = zeroi();
    if constexpr (G::kPairs) {
      DSV31_UNROLL for (int t = 0; t < G::kGroup / 32; ++t) side = add_pair(side, pairs[t], sums + 2 * t);
    }
    if constexpr (G::kSub != 0 && G::kOffset != 0) dot = sub(dot, shl<log2_of(G::kOffset)>(side));
    acc = fma(to_float(dot), mul(x_scale, scale), acc);
    if constexpr (G::kMin == Min::sub_scaled) acc = fnma(to_float(side), mul(x_scale, min_scale), acc);
    if constexpr (G::kMin == Min::added)
      acc = fma(to_float(add_pair(zeroi(), set1i(0x10001), sums)), mul(x_scale, min_scale), acc);
    return acc;
  }
};

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
      const Ending<G> ending(g);
      DSV31_UNROLL for (int c = 0; c < kColumns; ++c) acc[c] = ending.finish(acc[c], d.dot[0][c], x[c], k);
    });
  }
  DSV31_UNROLL for (int c = 0; c < kColumns; ++c) store(out + c * ld, acc[c]);
}

// Q2_K and Q3_K: code times sub-scale fits a byte, so where products are summed in int32 the panel holds that and needs no
// sub-scales.
template <class S>
inline constexpr bool kFlat = !kInt16Sums && S::kSub == 16 && S::kOffset <= 4;
template <class S>
inline constexpr int kFlatOffset =
    S::kOffset == 0 ? 0 : 124;  // -4 * 31, the least product of Q3_K; the largest is -4 * -32 = 128

template <class S>
using PanelTraits =
    Traits<S::kGroup, kFlat<S> ? 0 : S::kSub, S::kMin, kFlat<S> ? kFlatOffset<S> : S::kOffset, S::kSigned, S::kChunk>;

// One group of one strip, expanded: units, multipliers, pairs, scale, min_scale, start of the dot.
template <class S>
struct Panel : PanelTraits<S> {
  using T = PanelTraits<S>;
  using Unit = Stored<S::kSigned>;
  static constexpr int kUnits = S::kGroup / 4, kMults = T::kSub == 0 ? 0 : S::kGroup / S::kSub, kRuns = S::kGroup / 32;
  static constexpr int kMultsAt = kUnits * Unit::kBytes, kPairsAt = kMultsAt + 64 * kMults;
  static constexpr int kScaleAt = kPairsAt + 64 * (T::kPairs ? kRuns : 0),
                       kStartAt = kScaleAt + 64 * (S::kMin == Min::none ? 1 : 2);
  static constexpr int kBytes = kStartAt + (S::kSigned ? 64 : 0);
  const std::byte* at;

  template <int t>
  DSV31_LANES I16 pair() const {
    return dwords(at + kPairsAt + 64 * t);
  }
  DSV31_LANES V16 scale() const { return load(reinterpret_cast<const float*>(at + kScaleAt)); }
  DSV31_LANES V16 min_scale() const { return load(reinterpret_cast<const float*>(at + kScaleAt + 64)); }
  DSV31_LANES I16 start() const {
    if constexpr (S::kSigned) return dwords(at + kStartAt);
    return zeroi();
  }

  DSV31_LANES static void expand(const S& g, std::byte* to) {
    I16 start = zeroi();
    unroll<kUnits>(DSV31_STEP(i) {
      constexpr int kUnit = decltype(i)::value;
      Bytes w = g.template unit<kUnit / 8, kUnit % 8>();
      if constexpr (kFlat<S>) w = times(w, S::kOffset, g.template mult<kUnit / 4>(), kFlatOffset<S>);
      Unit::store(to + Unit::kBytes * kUnit, w);
      if constexpr (S::kSigned && S::kSub == 0) start = sum_into(start, Unit::start(w));
      if constexpr (S::kSigned && S::kSub == 32) start = add_scaled(start, Unit::start(w), g.template mult<kUnit / 8>());
    });
    unroll<kMults>(DSV31_STEP(i) {
      storei(reinterpret_cast<std::int32_t*>(to + kMultsAt + 64 * i.value), g.template mult<decltype(i)::value>());
    });
    if constexpr (T::kPairs)
      unroll<kRuns>(DSV31_STEP(i) {
        storei(reinterpret_cast<std::int32_t*>(to + kPairsAt + 64 * i.value), g.template pair<decltype(i)::value>());
      });
    store(reinterpret_cast<float*>(to + kScaleAt), g.scale());
    if constexpr (S::kMin != Min::none) store(reinterpret_cast<float*>(to + kScaleAt + 64), g.min_scale());
    if constexpr (S::kSigned) storei(reinterpret_cast<std::int32_t*>(to + kStartAt), start);
  }
};

inline constexpr std::int64_t kPanelDepth = 512;  // k expanded at a time

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
  const std::byte *units, *mults;
  template <int u>
  DSV31_LANES auto unit() const {
    return P::Unit::load(units + P::Unit::kBytes * u);
  }
  template <int s>
  DSV31_LANES I16 mult() const {
    return dwords(mults + 64 * s);
  }
};

// out[c] (16 a strip) += w (depth, 16 a strip) * x[c] from k on, from panels.
template <class P, int kStrips, int kColumns>
void panel_product(const std::byte* panel, std::int64_t k, std::int64_t groups, const Column (&x)[kColumns], float* out,
                   std::int64_t ld) {
  for (std::int64_t i = 0; i < groups; ++i, panel += P::kBytes, k += P::kGroup) {
    Dots<kStrips, kColumns> d;
    clear(d);
    if constexpr (P::kSigned) {
      DSV31_UNROLL for (int r = 0; r < kStrips; ++r) {
        const P g{{}, panel + r * kPanelStride};
        DSV31_UNROLL for (int c = 0; c < kColumns; ++c) d.dot[r][c] = g.start();
      }
    }
    for (int t = 0; t < P::kRuns; ++t) {
      PanelRun<P> run[kStrips];
      DSV31_UNROLL for (int r = 0; r < kStrips; ++r) {
        const std::byte* at = panel + r * kPanelStride;
        run[r] = {at + 8 * P::Unit::kBytes * t, at + P::kMultsAt + 64 * P::kMults / P::kRuns * t};
      }
      run_dots<P>(run, x, k + 32 * t, d);
    }
    DSV31_UNROLL for (int r = 0; r < kStrips; ++r) {
      const Ending<P> ending(P{{}, panel + r * kPanelStride});
      DSV31_UNROLL for (int c = 0; c < kColumns; ++c) {
        float* to = out + c * ld + 16 * r;
        store(to, ending.finish(load(to), d.dot[r][c], x[c], k));
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

struct PanelRange {
  const std::byte* panel;
  std::int64_t k, groups;   // of K
  std::int64_t begin, end;  // columns
};

template <class P, int kStrips, int kColumns>
DSV31_LANES void panel_columns(const cpu::MatmulArgs& a, PanelRange r, float* out) {
  for (; r.begin + kColumns <= r.end; r.begin += kColumns) {
    Column x[kColumns];
    for (int c = 0; c < kColumns; ++c) x[c] = column(a, r.begin + c);
    panel_product<P, kStrips, kColumns>(r.panel, r.k, r.groups, x, out + r.begin * a.ld, a.ld);
  }
  if constexpr (kColumns > 1)
    panel_columns<P, kStrips, (kColumns > 4 ? kColumns * 2 / 3 : kColumns) / (kColumns > 4 ? 1 : 2)>(a, r, out);
}

// Columns in blocks of kBlockColumns, which stay in L1 with one panel while all strips of the item pass over them.
template <DType kType, int kStrips>
DSV31_LANES void panel_strips(const cpu::MatmulArgs& a, const std::byte* strip, std::int64_t pitch, std::int64_t strips,
                              float* out) {
  using P = Panel<Block<kType, 0>>;
  constexpr int kColumns = P::kSub == 0 ? kPanelColumns : kPanelColumnsScaled;
  constexpr std::int64_t kDepth = kPanelDepth / kLayout<kType>.block;
  const std::int64_t blocks = a.w->desc.cols / kLayout<kType>.block;
  for (std::int64_t b = 0; b < blocks; b += kDepth) {
    const std::int64_t count = blocks - b < kDepth ? blocks - b : kDepth;
    for (std::int64_t s = 0; s < strips; ++s)
      expand_blocks<kType>(strip + s * pitch, blocks, b, count, a.scratch + s * kPanelStride);
    for (std::int64_t j = 0; j < a.m; j += kBlockColumns) {
      const std::int64_t end = a.m - j < kBlockColumns ? a.m : j + kBlockColumns;
      if (b == 0)
        for (std::int64_t c = j; c < end; ++c)
          for (std::int64_t s = 0; s < strips; ++s) store(out + c * a.ld + 16 * s, set1(0.0f));
      for (std::int64_t s = 0; s < strips; s += kStrips)
        panel_columns<P, kStrips, kColumns>(
            a, {a.scratch + s * kPanelStride, b * kLayout<kType>.block, count * (kLayout<kType>.block / P::kGroup), j, end},
            out + 16 * s);
    }
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
    const std::int64_t whole = strips / kPanelStripsAtOnce * kPanelStripsAtOnce;
    if (whole > 0) panel_strips<kType, kPanelStripsAtOnce>(a, strip, pitch, whole, a.out);
    if (whole < strips) panel_strips<kType, 1>(a, strip + whole * pitch, pitch, strips - whole, a.out + 16 * whole);
  }
  clear_padding(a);
}

}  // namespace dsv31::inline v1::quantized::DSV31_ISA
