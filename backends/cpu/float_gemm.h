// The float kernels of one instruction set. See float_gemm_isa.h.
#pragma once

#include "backends/cpu/matmul.h"

namespace dsv31::inline v1::cpu {

struct FloatKernels {
  MatmulKernel f32, f16, bf16, f8_e4m3;
  StripProduct strip;
  // Float32 values of k in [k_begin, k_end) of one strip: out (k_end - k_begin, 16).
  void (*decode)(const PackedMatrix& w, std::int64_t index, std::int64_t strip, std::int64_t k_begin, std::int64_t k_end,
                 float* out);
};
namespace generic {
extern const FloatKernels kFloatKernels;
}
namespace avx2 {
extern const FloatKernels kFloatKernels;
}
namespace avx512 {
extern const FloatKernels kFloatKernels;
}

const FloatKernels& float_kernels_of(Isa isa);

// Side of a block of F8_E4M3 weights that shares one scale (config.json: weight_block_size).
inline constexpr std::int64_t kScaleBlock = 128;

}  // namespace dsv31::inline v1::cpu
