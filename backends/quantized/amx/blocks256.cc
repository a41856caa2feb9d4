// The int8 kernels of the formats with super-blocks of 256 on AMX.
#include "backends/quantized/amx/tiles.h"

namespace dsv31::inline v1::quantized {

#define DSV31_AMX(type)                                              \
  extern template void avx512::matmul<type>(const cpu::MatmulArgs&); \
  template void amx::matmul<type>(const cpu::MatmulArgs&);
DSV31_AMX(DType::q2_k)
DSV31_AMX(DType::q3_k)
DSV31_AMX(DType::q4_k)
DSV31_AMX(DType::q5_k)
DSV31_AMX(DType::q6_k)
DSV31_AMX(DType::iq4_xs)
#undef DSV31_AMX

}  // namespace dsv31::inline v1::quantized
