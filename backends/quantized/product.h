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
  const float *scale, *side;
  const std::int16_t* sums;
};

template <int kStrips, int kColumns>
struct Dots {
  I16 dot[kStrips][kColumns];
};

#define DSV31_UNROLL _Pragma("GCC unroll 16")

// Group t (32 k) of a block, a view with the same names as PanelGroup.
template <class G, int t>
struct BlockGroup {
  const G& g;
  template <int u>
  DSV31_LANES Bytes unit() const {
    return g.template unit<t, u>();
  }
  template <int s>
  DSV31_LANES I16 mult() const {
    return g.template mult<t, s>();
  }
  template <int s>
  DSV31_LANES V16 scale() const {
    return g.template scale<t, s>();
  }
  template <int s>
  DSV31_LANES I16 start() const {
    return zeroi();
  }
  DSV31_LANES V16 minimum() const { return g.template minimum<t>(); }
  DSV31_LANES V16 min_scale() const { return g.min_scale(); }
  DSV31_LANES I16 pair() const { return g.template pair<t>(); }
};

template <class View, int s, int kStrips, int kColumns>
DSV31_LANES void start_dots(const View (&w)[kStrips], Dots<kStrips, kColumns>& d) {
  DSV31_UNROLL for (int r = 0; r < kStrips; ++r) {
    DSV31_UNROLL for (int c = 0; c < kColumns; ++c) d.dot[r][c] = w[r].template start<s>();
  }
}

// dot += sum over run s of the group of sub_scale * code * q, exact. k: where the group begins.
template <class G, class View, int s, int kStrips, int kColumns>
DSV31_LANES void run_dots(const View (&w)[kStrips], const Column (&x)[kColumns], std::int64_t k, Dots<kStrips, kColumns>& d) {
  constexpr int kUnits = G::kRun / 4, kUnitsOfSub = G::kSub == 0 ? kUnits : 4;
  constexpr int kChunk = kInt16Sums ? (G::kChunk < kUnitsOfSub ? G::kChunk : kUnitsOfSub) : kUnitsOfSub;
  if constexpr (G::kSub == 0 && G::kOffset != 0) {
    constexpr std::uint32_t kLow = -G::kOffset & 0xFFFF, kHigh = static_cast<std::uint32_t>(-G::kOffset) << 16;
    const I16 offset = set1i(static_cast<std::int32_t>(G::kRun == 32 ? kHigh | kLow : s == 0 ? kLow : kHigh));
    DSV31_UNROLL for (int r = 0; r < kStrips; ++r) {
      DSV31_UNROLL for (int c = 0; c < kColumns; ++c) d.dot[r][c] =
          add_pair(d.dot[r][c], offset, x[c].sums + static_cast<std::uint64_t>(k) / 16);
    }
  }
  unroll<kUnits / kChunk>(DSV31_STEP(chunk) {
    Sum sum[kStrips][kColumns];
    DSV31_UNROLL for (int r = 0; r < kStrips; ++r) {
      DSV31_UNROLL for (int c = 0; c < kColumns; ++c) sum[r][c] = sum_from(G::kSub == 0 ? d.dot[r][c] : zeroi());
    }
    unroll<kChunk>(DSV31_STEP(i) {
      constexpr int kUnit = s * kUnits + decltype(chunk)::value * kChunk + decltype(i)::value;
      decltype(w[0].template unit<kUnit>()) unit[kStrips];
      DSV31_UNROLL for (int r = 0; r < kStrips; ++r) unit[r] = w[r].template unit<kUnit>();
      DSV31_UNROLL for (int c = 0; c < kColumns; ++c) {
        const Bytes q = quad(x[c].q + k + 4 * kUnit);
        DSV31_UNROLL for (int r = 0; r < kStrips; ++r) sum[r][c] = step<G::kSigned>(sum[r][c], unit[r], q);
      }
    });
    DSV31_UNROLL for (int r = 0; r < kStrips; ++r) {
      if constexpr (G::kSub == 0) {
        DSV31_UNROLL for (int c = 0; c < kColumns; ++c) d.dot[r][c] = sum_into(d.dot[r][c], sum[r][c]);
      } else {
        const I16 mult = w[r].template mult<decltype(chunk)::value * kChunk / kUnitsOfSub>();
        DSV31_UNROLL for (int c = 0; c < kColumns; ++c) d.dot[r][c] = add_scaled(d.dot[r][c], sum[r][c], mult);
      }
    }
  });
}

constexpr int log2_of(int v) { return v <= 1 ? 0 : 1 + log2_of(v / 2); }

// acc = fma(float(dot), x_scale * scale, acc) for run s of the group; after the last one fma(x_side, minimum, acc), or
// fma(float(-min_dot), x_scale * min_scale, acc), where the format has a minimum. k: where the group begins.
template <class G, int s, class View>
DSV31_LANES V16 finish(V16 acc, I16 dot, const View& w, const Column& x, std::int64_t k) {
  const std::int16_t* sums = x.sums + static_cast<std::uint64_t>(k) / 16;
  const std::uint64_t group = static_cast<std::uint64_t>(k) / cpu::kGroup;
  const V16 x_scale = set1(x.scale[group]);
  I16 side = zeroi();
  if constexpr (G::kPairs) side = add_pair(side, w.pair(), sums);
  if constexpr (G::kSub != 0 && G::kOffset != 0) dot = sub(dot, shl<log2_of(G::kOffset)>(side));
  acc = fma(to_float(dot), mul(x_scale, w.template scale<s>()), acc);
  if constexpr (G::kMin == Min::sub_scaled) acc = fnma(to_float(side), mul(x_scale, w.min_scale()), acc);
  if constexpr (G::kMin == Min::added && s == 32 / G::kRun - 1) acc = fma(set1(x.side[group]), w.minimum(), acc);
  return acc;
}

// out[c] (16) = sum over k of w (cols, 16) * x[c] (cols), one strip, codes taken apart in registers.
template <DType kType, int kColumns>
void packed_product(const std::byte* strip, std::int64_t blocks, const Column (&x)[kColumns], float* out, std::int64_t ld) {
  constexpr int kHalves = kLayout<kType>.block == 32 ? 1 : 2, kLines = kLayout<kType>.record_bytes() / 64 / kHalves;
  constexpr int kGroups = kLayout<kType>.block / 32 / kHalves;
  constexpr int kAhead = 1536;  // bytes
  const std::byte* record = strip;
  V16 acc[kColumns];
  DSV31_UNROLL for (int c = 0; c < kColumns; ++c) acc[c] = set1(0.0f);
  for (std::int64_t b = 0; b < blocks; ++b, record += kLayout<kType>.record_bytes()) {
    unroll<kHalves>(DSV31_STEP(h) {
      using G = Block<kType, decltype(h)::value>;
      for (int i = 0; i < kLines; ++i) prefetch(record + kAhead + 64 * (decltype(h)::value * kLines + i));
      const G g{record};
      unroll<kGroups>(DSV31_STEP(t) {
        using View = BlockGroup<G, decltype(t)::value>;
        const std::int64_t k = b * kLayout<kType>.block + 128 * decltype(h)::value + 32 * decltype(t)::value;
        const View view[1] = {{g}};
        unroll<32 / G::kRun>(DSV31_STEP(s) {
          constexpr int kS = decltype(s)::value;
          Dots<1, kColumns> d;
          start_dots<View, kS>(view, d);
          run_dots<G, View, kS>(view, x, k, d);
          DSV31_UNROLL for (int c = 0; c < kColumns; ++c) acc[c] = finish<G, kS>(acc[c], d.dot[0][c], view[0], x[c], k);
        });
      });
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
    Traits<S::kRun, kFlat<S> ? 0 : S::kSub, S::kMin, kFlat<S> ? kFlatOffset<S> : S::kOffset, S::kSigned, S::kChunk>;

// One group (32 k) of one strip, expanded: units, multipliers, pairs, scales, minimum, starts of the dots.
template <class S>
struct Panel : PanelTraits<S> {
  using T = PanelTraits<S>;
  using Unit = Stored<S::kSigned>;
  static constexpr int kUnits = 8, kMults = T::kSub == 0 ? 0 : 32 / S::kSub, kRuns = 32 / S::kRun;
  static constexpr int kMultsAt = kUnits * Unit::kBytes, kPairsAt = kMultsAt + 64 * kMults;
  static constexpr int kScaleAt = kPairsAt + 64 * (T::kPairs ? 1 : 0), kMinAt = kScaleAt + 64 * kRuns;
  static constexpr int kStartAt = kMinAt + 64 * (S::kMin == Min::none ? 0 : 1);
  static constexpr int kBytes = kStartAt + 64 * (S::kSigned ? kRuns : 0);

  template <int t>
  DSV31_LANES static void expand(const S& g, std::byte* to) {
    I16 start[kRuns];
    DSV31_UNROLL for (int s = 0; s < kRuns; ++s) start[s] = zeroi();
    unroll<kUnits>(DSV31_STEP(i) {
      constexpr int kUnit = decltype(i)::value;
      Bytes w = g.template unit<t, kUnit>();
      if constexpr (kFlat<S>) w = times(w, S::kOffset, g.template mult<t, kUnit / 4>(), kFlatOffset<S>);
      Unit::store(to + Unit::kBytes * kUnit, w);
      if constexpr (S::kSigned) {
        I16& sum = start[kUnit / (kUnits / kRuns)];
        sum = sum_into(sum, Unit::start(w));
      }
    });
    unroll<kMults>(DSV31_STEP(i) { put(to + kMultsAt + 64 * i.value, g.template mult<t, decltype(i)::value>()); });
    if constexpr (T::kPairs) put(to + kPairsAt, g.template pair<t>());
    unroll<kRuns>(DSV31_STEP(i) { put(to + kScaleAt + 64 * i.value, as_int(g.template scale<t, decltype(i)::value>())); });
    if constexpr (S::kMin == Min::added) put(to + kMinAt, as_int(g.template minimum<t>()));
    if constexpr (S::kMin == Min::sub_scaled) put(to + kMinAt, as_int(g.min_scale()));
    if constexpr (S::kSigned) unroll<kRuns>(DSV31_STEP(i) { put(to + kStartAt + 64 * i.value, start[i.value]); });
  }

 private:
  DSV31_LANES static void put(std::byte* to, I16 x) { storei(reinterpret_cast<std::int32_t*>(to), x); }
};

inline constexpr std::int64_t kPanelDepth = 512;  // k expanded at a time

// `count` records of one strip into its panel.
template <DType kType>
void expand_records(const std::byte* record, std::int64_t count, std::byte* panel) {
  for (std::int64_t i = 0; i < count; ++i, record += kLayout<kType>.record_bytes())
    unroll<kLayout<kType>.block == 32 ? 1 : 2>(DSV31_STEP(h) {
      using G = Block<kType, decltype(h)::value>;
      static_assert(Panel<G>::kBytes * (kPanelDepth / cpu::kGroup) <= kPanelStride);
      const G g{record};
      unroll<kLayout<kType>.block == 32 ? 1 : 4>(DSV31_STEP(t) {
        Panel<G>::template expand<decltype(t)::value>(g, panel);
        panel += Panel<G>::kBytes;
      });
    });
}

template <class P>
struct PanelGroup {
  const std::byte* at;
  template <int u>
  DSV31_LANES auto unit() const {
    return P::Unit::load(at + P::Unit::kBytes * u);
  }
  template <int s>
  DSV31_LANES I16 mult() const {
    return dwords(at + P::kMultsAt + 64 * s);
  }
  template <int s>
  DSV31_LANES V16 scale() const {
    return load(reinterpret_cast<const float*>(at + P::kScaleAt + 64 * s));
  }
  template <int s>
  DSV31_LANES I16 start() const {
    if constexpr (P::kSigned) return dwords(at + P::kStartAt + 64 * s);
    return zeroi();
  }
  DSV31_LANES V16 minimum() const { return load(reinterpret_cast<const float*>(at + P::kMinAt)); }
  DSV31_LANES V16 min_scale() const { return minimum(); }
  DSV31_LANES I16 pair() const { return dwords(at + P::kPairsAt); }
};

// out[c] (16 a strip) += w (depth, 16 a strip) * x[c] from k on, from panels.
template <class P, int kStrips, int kColumns>
void panel_product(const std::byte* panel, std::int64_t k, std::int64_t groups, const Column (&x)[kColumns], float* out,
                   std::int64_t ld) {
  using View = PanelGroup<P>;
  for (std::int64_t i = 0; i < groups; ++i, panel += P::kBytes, k += cpu::kGroup) {
    View view[kStrips];
    DSV31_UNROLL for (int r = 0; r < kStrips; ++r) view[r] = {panel + r * kPanelStride};
    unroll<P::kRuns>(DSV31_STEP(s) {
      constexpr int kS = decltype(s)::value;
      Dots<kStrips, kColumns> d;
      start_dots<View, kS>(view, d);
      run_dots<P, View, kS>(view, x, k, d);
      DSV31_UNROLL for (int r = 0; r < kStrips; ++r) {
        DSV31_UNROLL for (int c = 0; c < kColumns; ++c) {
          float* to = out + c * ld + 16 * r;
          store(to, finish<P, kS>(load(to), d.dot[r][c], view[r], x[c], k));
        }
      }
    });
  }
}

DSV31_LANES Column column(const cpu::MatmulArgs& a, std::int64_t j) {
  const std::int64_t row = a.rows == nullptr ? j : a.rows[j];
  const std::int64_t group = row * a.x->scale_stride;
  return {a.x->q + row * a.x->q_stride, a.x->scale + group, a.x->side + group, a.x->sums + row * a.x->sum_stride};
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
  constexpr std::int64_t kDepth = kPanelDepth / kLayout<kType>.block;
  const std::int64_t blocks = a.w->desc.cols / kLayout<kType>.block;
  for (std::int64_t b = 0; b < blocks; b += kDepth) {
    const std::int64_t count = blocks - b < kDepth ? blocks - b : kDepth;
    for (std::int64_t s = 0; s < strips; ++s)
      expand_records<kType>(strip + s * pitch + b * kLayout<kType>.record_bytes(), count, a.scratch + s * kPanelStride);
    for (std::int64_t j = 0; j < a.m; j += kBlockColumns) {
      const std::int64_t end = a.m - j < kBlockColumns ? a.m : j + kBlockColumns;
      if (b == 0)
        for (std::int64_t c = j; c < end; ++c)
          for (std::int64_t s = 0; s < strips; ++s) store(out + c * a.ld + 16 * s, set1(0.0f));
      for (std::int64_t s = 0; s < strips; s += kStrips)
        panel_columns<P, kStrips, kPanelColumns>(
            a, {a.scratch + s * kPanelStride, b * kLayout<kType>.block, count * (kLayout<kType>.block / cpu::kGroup), j, end},
            out + 16 * s);
    }
  }
}

inline constexpr std::int64_t kFewColumns = 8;

template <DType kType>
void matmul(const cpu::MatmulArgs& a) {
  const std::int64_t blocks = a.w->desc.cols / kLayout<kType>.block, pitch = blocks * kLayout<kType>.record_bytes();
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
