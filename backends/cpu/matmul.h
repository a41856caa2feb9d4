// The matrix product on packed weights: the one interface between the ops and the kernels of each format and instruction set.
//
// Weights are packed N16K4: strips of 16 output rows over the whole K, inside them 64-byte units of 16 rows x 4 consecutive k, so
// that one unit is one zmm, two ymm, or one row of an AMX tile. The stored form is the same for every instruction set. Canonical
// arithmetic: one float32 accumulator per output element, K ascending, never split. Float weights: acc = fma(w, x, acc). Int8
// activations: per group of 32 and per scale of the weights (a run of 32; of 16 in Q6_K) one exact int32 dot, then
// acc = fma(float(dot), x_scale * w_scale, acc), where w_scale is d times the sub-scale without rounding; formats with a minimum
// add acc = fma(x_side, w_min, acc) after a group. In Q2_K and Q3_K the sub-scales enter the integer dot, w_scale is d, and the
// minimum is added as acc = fma(float(-min_dot), x_scale * dmin, acc). So every kernel gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/simd/isa.h"
#include "dsv31/backend.h"

namespace dsv31::inline v1::cpu {

inline constexpr std::int64_t kStrip = 16;       // output rows in a strip
inline constexpr std::int64_t kPanelStrips = 4;  // strips in a work item: 64 output rows

using simd::Isa;

// What a kernel wants as activations.
enum class Form : std::uint8_t {
  f32,
  q8,  // int8, range +-127, one float32 scale (absmax / 127) for each kGroup; the last group may be shorter
};
inline constexpr std::int64_t kGroup = 32;

// Activation rows in one form. Row pointers are 64-byte aligned; q rows are padded with zeros to a multiple of 128, and kernels
// may read, not use, scale, side and sums up to what 512 columns have.
struct Activations {
  Form form = Form::f32;
  std::int64_t cols = 0;
  const float* f32 = nullptr;  // (rows, f32_stride)
  std::int64_t f32_stride = 0;
  const std::int8_t* q = nullptr;      // (rows, q_stride)
  const float* scale = nullptr;        // (rows, scale_stride): one a group
  const float* side = nullptr;         // (rows, scale_stride): scale * float(sum of q), one a group
  const std::int16_t* sums = nullptr;  // (rows, sum_stride): sum of q over each 16 consecutive k
  std::int64_t q_stride = 0, scale_stride = 0, sum_stride = 0;
};

struct MatmulArgs {
  const PackedMatrix* w = nullptr;
  std::int64_t index = 0;                       // which matrix of the stack
  std::int64_t strip_begin = 0, strip_end = 0;  // at most kPanelStrips strips
  const Activations* x = nullptr;
  const std::int32_t* rows = nullptr;  // (m): which activation rows; null: 0 .. m-1
  std::int64_t m = 0;
  float* out = nullptr;          // (m, ld): out[j * ld + (row - 16 * strip_begin)]; whole strips are written, the rows past
  std::int64_t ld = 0;           // the matrix's last one with zeros. 64-byte aligned, ld a multiple of 16
  std::byte* scratch = nullptr;  // scratch_bytes(), this worker's own, 64-byte aligned
};

struct MatmulKernel {
  const char* name = nullptr;  // "Q4_0*q8"
  Form form = Form::f32;
  void (*run)(const MatmulArgs& args) = nullptr;
  std::size_t (*scratch_bytes)(const MatrixDesc& w) = nullptr;
};

// Packed form of one format: all functions are exact inverses of each other and independent of the instruction set.
struct PackedFormat {
  std::size_t (*matrix_bytes)(const MatrixDesc& w) = nullptr;  // a multiple of 64, at most 1.03 of the source for whole strips
  void (*pack)(const MatrixDesc& w, std::int64_t row_begin, std::int64_t row_end, const std::byte* src,
               std::byte* packed) = nullptr;
  void (*unpack)(const MatrixDesc& w, std::int64_t row_begin, std::int64_t row_end, const std::byte* packed,
                 std::byte* dst) = nullptr;
  // Exact float32 values of one strip: out (k_end - k_begin, 16), k ranges in whole blocks of the format. For exact mode and
  // embedding.
  void (*decode_strip)(const PackedMatrix& w, std::int64_t index, std::int64_t strip, std::int64_t k_begin, std::int64_t k_end,
                       float* out) = nullptr;
};

// Float formats: F32, F16, BF16 and F8_E4M3 (block scales). Defined in backends/cpu.
const PackedFormat* float_packed_format(DType type);
const MatmulKernel* float_kernel(DType type, Isa isa);

// The building block of exact products of quantised weights: out[j][0..15] = (first ? 0 : out[j][0..15]) + sum over k in
// [k_begin, k_end) of w[k - k_begin][0..15] * x.f32[rows[j]][k], one accumulator per element, k ascending by fma.
// w (k_end - k_begin, 16), one decoded strip.
using StripProduct = void (*)(const float* w, std::int64_t k_begin, std::int64_t k_end, const Activations& x,
                              const std::int32_t* rows, std::int64_t m, float* out, std::int64_t ld, bool first);
StripProduct strip_product(Isa isa);

// What a backend puts at the disposal of the ops: `cpu` knows the float formats, `quantized` knows all.
struct KernelTable {
  const PackedFormat* (*format)(DType type) = nullptr;                       // null: not supported
  const MatmulKernel* (*kernel)(DType type, Isa isa, bool exact) = nullptr;  // null: not supported
  // Null, or what takes the kernel's place in relaxed numerics; itself null for a type without one.
  const MatmulKernel* (*relaxed)(DType type, Isa isa) = nullptr;
};
const KernelTable& float_kernels();

}  // namespace dsv31::inline v1::cpu
