// The packed form of float weights and the tables of their kernels.
// A strip of 16 rows is stored [k][16]: the 16 elements of one k are consecutive, in the source's own bits. Rows that the last
// strip has past the matrix's end are zero.
#include <array>
#include <cstring>

#include "backends/cpu/float_gemm.h"
#include "backends/cpu/kernels.h"

namespace dsv31::inline v1::cpu {

// In kernels_<isa>.cc.
namespace generic {
extern const RowKernels kRowKernels;
}
namespace avx2 {
extern const RowKernels kRowKernels;
}
namespace avx512 {
extern const RowKernels kRowKernels;
}

namespace {

template <std::size_t kBytes>
std::size_t matrix_bytes(const MatrixDesc& w) {
  const auto strips = static_cast<std::size_t>((w.rows + kStrip - 1) / kStrip);
  return (strips * 16 * static_cast<std::size_t>(w.cols) * kBytes + 63) / 64 * 64;
}

// to[k][r] = from[r][k] of a strip's rows, or back; rows (row_end - row_begin, cols) dense.
template <std::size_t kBytes>
void pack(const MatrixDesc& w, std::int64_t row_begin, std::int64_t row_end, const std::byte* src, std::byte* packed) {
  const auto cols = static_cast<std::size_t>(w.cols);
  for (std::int64_t begin = row_begin; begin < row_end; begin += kStrip) {
    std::byte* strip = packed + static_cast<std::size_t>(begin) * cols * kBytes;
    const auto rows = static_cast<std::size_t>(begin + kStrip < row_end ? kStrip : row_end - begin);
    const std::byte* from = src + static_cast<std::size_t>(begin - row_begin) * cols * kBytes;
    for (std::size_t k = 0; k < cols; ++k, strip += 16 * kBytes) {
      for (std::size_t r = 0; r < rows; ++r) std::memcpy(strip + r * kBytes, from + (r * cols + k) * kBytes, kBytes);
      std::memset(strip + rows * kBytes, 0, (16 - rows) * kBytes);
    }
  }
}

template <std::size_t kBytes>
void unpack(const MatrixDesc& w, std::int64_t row_begin, std::int64_t row_end, const std::byte* packed, std::byte* dst) {
  const auto cols = static_cast<std::size_t>(w.cols);
  for (std::int64_t row = row_begin; row < row_end; ++row) {
    const std::byte* from =
        packed + (static_cast<std::size_t>(row / kStrip * kStrip) * cols + static_cast<std::size_t>(row % kStrip)) * kBytes;
    std::byte* to = dst + static_cast<std::size_t>(row - row_begin) * cols * kBytes;
    for (std::size_t k = 0; k < cols; ++k) std::memcpy(to + k * kBytes, from + k * 16 * kBytes, kBytes);
  }
}

constexpr std::array<const FloatKernels*, 3> kTables = {&generic::kFloatKernels, &avx2::kFloatKernels, &avx512::kFloatKernels};

// Embedding and exact products call this a strip at a time: what the baseline code loses does not show.
void decode_strip(const PackedMatrix& w, std::int64_t index, std::int64_t strip, std::int64_t k_begin, std::int64_t k_end,
                  float* out) {
  generic::kFloatKernels.decode(w, index, strip, k_begin, k_end, out);
}

template <std::size_t kBytes>
constexpr PackedFormat kFormat = {matrix_bytes<kBytes>, pack<kBytes>, unpack<kBytes>, decode_strip};

const MatmulKernel* exact_or_not(DType type, Isa isa, bool) { return float_kernel(type, isa); }

}  // namespace

const PackedFormat* float_packed_format(DType type) {
  switch (type) {
    case DType::f32:
      return &kFormat<4>;
    case DType::f16:
    case DType::bf16:
      return &kFormat<2>;
    case DType::f8_e4m3:
      return &kFormat<1>;
    default:
      return nullptr;
  }
}

const FloatKernels& float_kernels_of(Isa isa) { return *kTables[static_cast<std::size_t>(simd::vectors_of(isa))]; }

const MatmulKernel* float_kernel(DType type, Isa isa) {
  const FloatKernels& k = float_kernels_of(isa);
  switch (type) {
    case DType::f32:
      return &k.f32;
    case DType::f16:
      return &k.f16;
    case DType::bf16:
      return &k.bf16;
    case DType::f8_e4m3:
      return &k.f8_e4m3;
    default:
      return nullptr;
  }
}

StripProduct strip_product(Isa isa) { return float_kernels_of(isa).strip; }

const KernelTable& float_kernels() {
  static constexpr KernelTable kTable = {float_packed_format, exact_or_not};
  return kTable;
}

const RowKernels& row_kernels(Isa isa) {
  static constexpr std::array<const RowKernels*, 3> kRows = {&generic::kRowKernels, &avx2::kRowKernels, &avx512::kRowKernels};
  return *kRows[static_cast<std::size_t>(simd::vectors_of(isa))];
}

}  // namespace dsv31::inline v1::cpu
