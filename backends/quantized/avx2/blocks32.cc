// The int8 kernels of the formats with blocks of 32 on AVX2.
#define DSV31_ISA_AVX2
#include "backends/quantized/avx2/units.h"
#include "backends/quantized/product.h"

namespace dsv31::inline v1::quantized::avx2 {

template void matmul<DType::q4_0>(const cpu::MatmulArgs&);
template void matmul<DType::q4_1>(const cpu::MatmulArgs&);
template void matmul<DType::q5_0>(const cpu::MatmulArgs&);
template void matmul<DType::q5_1>(const cpu::MatmulArgs&);
template void matmul<DType::q8_0>(const cpu::MatmulArgs&);
template void matmul<DType::iq4_nl>(const cpu::MatmulArgs&);
template void matmul<DType::mxfp4>(const cpu::MatmulArgs&);

}  // namespace dsv31::inline v1::quantized::avx2
