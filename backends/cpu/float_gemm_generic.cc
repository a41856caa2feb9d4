#define DSV31_ISA_GENERIC
#include "backends/cpu/float_gemm_isa.h"
