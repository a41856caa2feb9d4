#define DSV31_ISA_AVX2
#include "backends/cpu/float_gemm_isa.h"
