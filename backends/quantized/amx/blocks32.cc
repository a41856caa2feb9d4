// The int8 kernels of the formats with blocks of 32 on AMX.
#include "backends/quantized/amx/tiles.h"

namespace dsv31::inline v1::quantized {

#define DSV31_AMX(type)                                              \
  extern template void avx512::matmul<type>(const cpu::MatmulArgs&); \
  template void amx::matmul<type>(const cpu::MatmulArgs&);
DSV31_AMX(DType::q4_0)
DSV31_AMX(DType::q4_1)
DSV31_AMX(DType::q5_0)
DSV31_AMX(DType::q5_1)
DSV31_AMX(DType::q8_0)
DSV31_AMX(DType::iq4_nl)
DSV31_AMX(DType::mxfp4)
#undef DSV31_AMX

}  // namespace dsv31::inline v1::quantized
