// Products of float weights. Included by float_gemm_<isa>.cc after the macro that names the instruction set.
//
// out[j][r] = sum over k of w[r][k] * x[rows[j]][k]: one float32 accumulator per element, k ascending, acc = fma(w, x, acc). The
// value of a weight is its exact float32 value; for F8_E4M3 with block scales it is e4m3 * scale rounded to float32 (what the
// reference decodes), formed as (e4m3 * 2^-8) * (scale * 2^8), which is the same number unless the scale is above 2^119.
//
// A strip is stored [k][16 rows], so a tile of S strips x C columns is an outer product: S loads of weights and C broadcasts a k.
// S * C accumulators fill the registers. Few columns: the weights are read once, straight from the packed form, over the whole K.
// Many: K goes in blocks of kKc, whose accumulators are stored and loaded again (the same bits); narrow weights are first widened
// into scratch, which the following columns share.
#include "backends/cpu/float_gemm.h"
#include "backends/simd/lanes.h"

namespace dsv31::inline v1::cpu::DSV31_ISA {
namespace {
using namespace simd::DSV31_ISA;

#if defined(DSV31_ISA_AVX512)
constexpr int kAccumulators = 24, kColumns = 12;
#elif defined(DSV31_ISA_AVX2)
constexpr int kAccumulators = 6, kColumns = 6;
#else
constexpr int kAccumulators = 4, kColumns = 4;
#endif
constexpr int kDirectColumns = 4;  // up to here narrow weights are not widened into scratch
constexpr std::int64_t kKc = 256;  // a multiple of kScaleBlock

struct F32 {
  using Stored = float;
  static constexpr bool kScaled = false;
  DSV31_LANES static V16 widen(const float* p) { return load(p); }
};
struct F16 {
  using Stored = std::uint16_t;
  static constexpr bool kScaled = false;
  DSV31_LANES static V16 widen(const std::uint16_t* p) { return load_f16(p); }
};
struct Bf16 {
  using Stored = std::uint16_t;
  static constexpr bool kScaled = false;
  DSV31_LANES static V16 widen(const std::uint16_t* p) { return load_bf16(p); }
};
struct F8 {
  using Stored = std::uint8_t;
  static constexpr bool kScaled = true;
  DSV31_LANES static V16 widen(const std::uint8_t* p) { return load_e4m3(p); }
  DSV31_LANES static void widen(const std::uint8_t* p, V16& a, V16& b) { load_e4m3(p, a, b); }  // two k
};

// Consecutive strips of one matrix, in the form they are stored in.
template <class W>
struct Strips {
  const typename W::Stored* data;  // (strips, k, 16)
  std::int64_t stride;             // elements from strip to strip
  const float* scales;             // F8: (k blocks) of the strips' block row, or null. kPanelStrips strips from a multiple of
                                   // kPanelStrips on never straddle two block rows
};

DSV31_LANES V16 block_scale(const float* scales, std::int64_t k) {
  return set1((scales == nullptr ? 1.0f : scales[k / kScaleBlock]) * 256.0f);
}

struct Columns {
  const float* const* x;  // (C): rows of activations
  float* out;             // (C, ld)
  std::int64_t ld;
  bool first;  // start at zero instead of at out
};

// acc (C, S) += row (S) of one k times x[j][k]
template <int S, int C>
DSV31_LANES void multiply_row(const V16* row, const float* const* x, std::int64_t k, V16 (*acc)[S]) {
#pragma GCC unroll 12
  for (int j = 0; j < C; ++j) {
    const V16 xk = set1(x[j][k]);
#pragma GCC unroll 4
    for (int s = 0; s < S; ++s) acc[j][s] = fma(row[s], xk, acc[j][s]);
  }
}

// S strips x C columns over k in [k_begin, k_end); data starts at k = 0.
template <class W, int S, int C>
DSV31_LANES void tile(const Strips<W>& w, std::int64_t k_begin, std::int64_t k_end, const Columns& c, int strip) {
  V16 acc[C][S];
#pragma GCC unroll 12
  for (int j = 0; j < C; ++j)
#pragma GCC unroll 4
    for (int s = 0; s < S; ++s) acc[j][s] = c.first ? zero() : load(c.out + j * c.ld + 16 * (strip + s));
  const float* x[C];
#pragma GCC unroll 12
  for (int j = 0; j < C; ++j) x[j] = c.x[j];
  const typename W::Stored* data = w.data + strip * w.stride;
  for (std::int64_t block = k_begin; block < k_end;) {
    std::int64_t end = k_end;
    V16 scale = zero();
    if constexpr (W::kScaled) {
      end = (block / kScaleBlock + 1) * kScaleBlock;
      end = end < k_end ? end : k_end;
      scale = block_scale(w.scales, block);
    }
    std::int64_t k = block;
    if constexpr (W::kScaled)
      for (; k + 2 <= end; k += 2) {
        V16 row[2][S];
#pragma GCC unroll 4
        for (int s = 0; s < S; ++s) {
          W::widen(data + s * w.stride + k * 16, row[0][s], row[1][s]);
          row[0][s] = mul(row[0][s], scale);
          row[1][s] = mul(row[1][s], scale);
        }
        multiply_row<S, C>(row[0], x, k, acc);
        multiply_row<S, C>(row[1], x, k + 1, acc);
      }
    for (; k < end; ++k) {
      V16 row[S];
#pragma GCC unroll 4
      for (int s = 0; s < S; ++s) {
        row[s] = W::widen(data + s * w.stride + k * 16);
        if constexpr (W::kScaled) row[s] = mul(row[s], scale);
      }
      multiply_row<S, C>(row, x, k, acc);
    }
    block = end;
  }
#pragma GCC unroll 12
  for (int j = 0; j < C; ++j)
#pragma GCC unroll 4
    for (int s = 0; s < S; ++s) store(c.out + j * c.ld + 16 * (strip + s), acc[j][s]);
}

// All strips for C columns, as many at a time as the accumulators allow.
template <class W, int C>
void columns(const Strips<W>& w, int strips, std::int64_t k_begin, std::int64_t k_end, const Columns& c) {
  constexpr int kMost = kAccumulators / C;
  int s = 0;
  if constexpr (kMost >= 4)
    for (; s + 4 <= strips; s += 4) tile<W, 4, C>(w, k_begin, k_end, c, s);
  if constexpr (kMost >= 2)
    for (; s + 2 <= strips; s += 2) tile<W, 2, C>(w, k_begin, k_end, c, s);
  for (; s < strips; ++s) tile<W, 1, C>(w, k_begin, k_end, c, s);
}

template <class W, int C>
DSV31_LANES void columns_of(int count, const Strips<W>& w, int strips, std::int64_t k_begin, std::int64_t k_end,
                            const Columns& c) {
  if constexpr (C > 0) {
    if (count == C)
      columns<W, C>(w, strips, k_begin, k_end, c);
    else
      columns_of<W, C - 1>(count, w, strips, k_begin, k_end, c);
  }
}

// All m columns, kMost at a time.
template <class W, int kMost>
void all_columns(const Strips<W>& w, int strips, std::int64_t k_begin, std::int64_t k_end, const Activations& x,
                 std::int64_t x_offset, const std::int32_t* rows, std::int64_t m, float* out, std::int64_t ld, bool first) {
  const float* pointers[kMost];
  for (std::int64_t j = 0; j < m; j += kMost) {
    const int count = m - j < kMost ? static_cast<int>(m - j) : kMost;
    for (int i = 0; i < count; ++i)
      pointers[i] = x.f32 + (rows == nullptr ? j + i : static_cast<std::int64_t>(rows[j + i])) * x.f32_stride + x_offset;
    columns_of<W, kMost>(count, w, strips, k_begin, k_end, {pointers, out + j * ld, ld, first});
  }
}

template <class W>
Strips<W> strips_of(const PackedMatrix& w, std::int64_t index, std::int64_t strip) {
  const std::int64_t cols = w.desc.cols, block_cols = (cols + kScaleBlock - 1) / kScaleBlock;
  const std::int64_t block_rows = (w.desc.rows + kScaleBlock - 1) / kScaleBlock;
  const auto* matrix = reinterpret_cast<const typename W::Stored*>(w.data + static_cast<std::size_t>(index) * w.stride);
  const float* scales = nullptr;
  if (W::kScaled && w.scales != nullptr) scales = w.scales + (index * block_rows + strip * kStrip / kScaleBlock) * block_cols;
  return {matrix + strip * 16 * cols, 16 * cols, scales};
}

template <class W>
void decode(const Strips<W>& w, std::int64_t k_begin, std::int64_t k_end, float* out) {
  for (std::int64_t k = k_begin; k < k_end; ++k, out += 16) {
    V16 v = W::widen(w.data + k * 16);
    if constexpr (W::kScaled) v = mul(v, block_scale(w.scales, k));
    store(out, v);
  }
}

template <class W>
void run_strips(const MatmulArgs& a, std::int64_t begin, int strips, float* out) {
  const std::int64_t cols = a.w->desc.cols;
  const Strips<W> w = strips_of<W>(*a.w, a.index, begin);
  if (a.m <= kDirectColumns) {
    all_columns<W, kDirectColumns>(w, strips, 0, cols, *a.x, 0, a.rows, a.m, out, a.ld, true);
    return;
  }
  if constexpr (sizeof(typename W::Stored) == 4) {
    for (std::int64_t k = 0; k < cols; k += kKc)
      all_columns<W, kColumns>(w, strips, k, k + kKc < cols ? k + kKc : cols, *a.x, 0, a.rows, a.m, out, a.ld, k == 0);
  } else {
    auto* wide = reinterpret_cast<float*>(a.scratch);  // (strips, kKc, 16)
    for (std::int64_t k = 0; k < cols; k += kKc) {
      const std::int64_t end = k + kKc < cols ? k + kKc : cols;
      for (int s = 0; s < strips; ++s) decode(Strips<W>{w.data + s * w.stride, w.stride, w.scales}, k, end, wide + s * kKc * 16);
      const Strips<F32> block = {wide, kKc * 16, nullptr};
      all_columns<F32, kColumns>(block, strips, 0, end - k, *a.x, k, a.rows, a.m, out, a.ld, k == 0);
    }
  }
}

template <class W>
void run(const MatmulArgs& a) {
  // Scaled strips are cut where a new block row of scales begins.
  constexpr std::int64_t kBlockStrips = kScaleBlock / kStrip;
  for (std::int64_t s = a.strip_begin; s < a.strip_end;) {
    std::int64_t end = a.strip_end;
    if (W::kScaled && (s / kBlockStrips + 1) * kBlockStrips < end) end = (s / kBlockStrips + 1) * kBlockStrips;
    run_strips<W>(a, s, static_cast<int>(end - s), a.out + (s - a.strip_begin) * kStrip);
    s = end;
  }
}

std::size_t no_scratch(const MatrixDesc&) { return 0; }
std::size_t wide_panel(const MatrixDesc&) { return static_cast<std::size_t>(kPanelStrips * kKc * 16) * sizeof(float); }

void strip_product(const float* w, std::int64_t k_begin, std::int64_t k_end, const Activations& x, const std::int32_t* rows,
                   std::int64_t m, float* out, std::int64_t ld, bool first) {
  const Strips<F32> strip = {w, (k_end - k_begin) * 16, nullptr};
  all_columns<F32, kColumns>(strip, 1, 0, k_end - k_begin, x, k_begin, rows, m, out, ld, first);
}

void decode_strip(const PackedMatrix& w, std::int64_t index, std::int64_t strip, std::int64_t k_begin, std::int64_t k_end,
                  float* out) {
  switch (w.desc.type) {
    case DType::f32:
      return decode(strips_of<F32>(w, index, strip), k_begin, k_end, out);
    case DType::f16:
      return decode(strips_of<F16>(w, index, strip), k_begin, k_end, out);
    case DType::bf16:
      return decode(strips_of<Bf16>(w, index, strip), k_begin, k_end, out);
    default:
      return decode(strips_of<F8>(w, index, strip), k_begin, k_end, out);
  }
}

}  // namespace

const FloatKernels kFloatKernels = {{"F32*f32", Form::f32, run<F32>, no_scratch},
                                    {"F16*f32", Form::f32, run<F16>, wide_panel},
                                    {"BF16*f32", Form::f32, run<Bf16>, wide_panel},
                                    {"F8_E4M3*f32", Form::f32, run<F8>, wide_panel},
                                    strip_product,
                                    decode_strip};

}  // namespace dsv31::inline v1::cpu::DSV31_ISA
