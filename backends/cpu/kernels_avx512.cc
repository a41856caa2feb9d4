#define DSV31_ISA_AVX512
#include "backends/cpu/kernels_isa.h"
