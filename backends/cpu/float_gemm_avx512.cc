#define DSV31_ISA_AVX512
#include "backends/cpu/float_gemm_isa.h"
