// The tables of this folder: a kernel for each format and instruction set, int8 and exact.
#include "backends/quantized/isa_kernels.h"
#include "backends/quantized/layout.h"
#include "backends/quantized/packed.h"

namespace dsv31::inline v1::quantized {

namespace {

constexpr std::int64_t kExactColumns = 256;  // decoded at a time: 16 KiB of float32

std::size_t panel_scratch(const MatrixDesc&) { return kPanelScratch; }
std::size_t tile_scratch(const MatrixDesc&) { return kPanelScratch + kTileColumns; }
std::size_t exact_scratch(const MatrixDesc&) { return 16 * kExactColumns * sizeof(float); }

// out (m, 16 * strips) = x (m, cols) * decoded W (rows, cols)^T, one fma a product, K ascending
template <cpu::Isa kIsa>
void exact_matmul(const cpu::MatmulArgs& a) {
  const cpu::StripProduct product = cpu::strip_product(kIsa);
  const cpu::PackedFormat& format = *packed_format(a.w->desc.type);
  float* panel = reinterpret_cast<float*>(a.scratch);
  for (std::int64_t strip = a.strip_begin; strip < a.strip_end; ++strip) {
    float* out = a.out + 16 * (strip - a.strip_begin);
    for (std::int64_t k = 0; k < a.w->desc.cols; k += kExactColumns) {
      const std::int64_t k_end = k + kExactColumns < a.w->desc.cols ? k + kExactColumns : a.w->desc.cols;
      format.decode_strip(*a.w, a.index, strip, k, k_end, panel);
      product(panel, k, k_end, *a.x, a.rows, a.m, out, a.ld, k == 0);
    }
  }
  clear_padding(a);
}

struct Row {
  DType type;
  cpu::MatmulKernel of_isa[simd::kIsaCount];
};
template <DType kType>
constexpr Row row(const char* name) {
#if defined(__x86_64__)
  return {kType,
          {{name, cpu::Form::q8, generic::matmul, panel_scratch},
           {name, cpu::Form::q8, avx2::matmul<kType>, panel_scratch},
           {name, cpu::Form::q8, avx512::matmul<kType>, panel_scratch},
           {name, cpu::Form::q8, amx::matmul<kType>, tile_scratch}}};
#else
  return {kType, {{name, cpu::Form::q8, generic::matmul, panel_scratch}, {}, {}, {}}};
#endif
}
constexpr Row kRows[] = {
    row<DType::q4_0>("Q4_0*q8"),     row<DType::q4_1>("Q4_1*q8"),     row<DType::q5_0>("Q5_0*q8"),   row<DType::q5_1>("Q5_1*q8"),
    row<DType::q8_0>("Q8_0*q8"),     row<DType::iq4_nl>("IQ4_NL*q8"), row<DType::mxfp4>("MXFP4*q8"), row<DType::q2_k>("Q2_K*q8"),
    row<DType::q3_k>("Q3_K*q8"),     row<DType::q4_k>("Q4_K*q8"),     row<DType::q5_k>("Q5_K*q8"),   row<DType::q6_k>("Q6_K*q8"),
    row<DType::iq4_xs>("IQ4_XS*q8"),
};

constexpr cpu::MatmulKernel kExact[] = {{"blocks*f32", cpu::Form::f32, exact_matmul<cpu::Isa::generic>, exact_scratch},
                                        {"blocks*f32", cpu::Form::f32, exact_matmul<cpu::Isa::avx2>, exact_scratch},
                                        {"blocks*f32", cpu::Form::f32, exact_matmul<cpu::Isa::avx512>, exact_scratch}};

const cpu::PackedFormat* any_format(DType type) {
  const cpu::PackedFormat* own = packed_format(type);
  return own != nullptr ? own : cpu::float_packed_format(type);
}
const cpu::MatmulKernel* any_kernel(DType type, cpu::Isa isa, bool exact) {
  if (packed_format(type) == nullptr) return cpu::float_kernel(type, isa);
  return exact ? exact_kernel(type, isa) : kernel(type, isa);
}
constexpr cpu::KernelTable kKernels = {any_format, any_kernel};

}  // namespace

void clear_padding(const cpu::MatmulArgs& a) {
  const std::int64_t rows = a.w->desc.rows - 16 * a.strip_begin, width = 16 * (a.strip_end - a.strip_begin);
  for (std::int64_t j = 0; j < a.m && rows < width; ++j)
    for (std::int64_t r = rows; r < width; ++r) a.out[j * a.ld + r] = 0.0f;
}

const cpu::MatmulKernel* kernel(DType type, cpu::Isa isa) {
  for (const Row& row : kRows)
    if (row.type == type) {
      const cpu::MatmulKernel& k = row.of_isa[static_cast<int>(isa)];
      return k.run == nullptr ? nullptr : &k;
    }
  return nullptr;
}

const cpu::MatmulKernel* exact_kernel(DType type, cpu::Isa isa) {
  return layout_of(type) == nullptr ? nullptr : &kExact[static_cast<int>(simd::vectors_of(isa))];
}

const cpu::KernelTable& kernels() { return kKernels; }

}  // namespace dsv31::inline v1::quantized
