// Packed block formats and their int8 kernels, for the ops in backends/cpu and for the backend `quantized`.
#pragma once

#include "backends/cpu/matmul.h"

namespace dsv31::inline v1::quantized {

// Null for a type that is not one of Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4.
const cpu::PackedFormat* packed_format(DType type);
const cpu::MatmulKernel* kernel(DType type, cpu::Isa isa);        // int8 activations
const cpu::MatmulKernel* exact_kernel(DType type, cpu::Isa isa);  // float32 activations, strips decoded into scratch
// These formats and, for mixed ops, the float ones of backends/cpu.
const cpu::KernelTable& kernels();

}  // namespace dsv31::inline v1::quantized
