// The int8 kernels of the formats with super-blocks of 256 on AVX512.
#define DSV31_ISA_AVX512
#include "backends/quantized/avx512/units.h"
#include "backends/quantized/product.h"

namespace dsv31::inline v1::quantized::avx512 {

template void matmul<DType::q2_k>(const cpu::MatmulArgs&);
template void matmul<DType::q3_k>(const cpu::MatmulArgs&);
template void matmul<DType::q4_k>(const cpu::MatmulArgs&);
template void matmul<DType::q5_k>(const cpu::MatmulArgs&);
template void matmul<DType::q6_k>(const cpu::MatmulArgs&);
template void matmul<DType::iq4_xs>(const cpu::MatmulArgs&);

}  // namespace dsv31::inline v1::quantized::avx512
