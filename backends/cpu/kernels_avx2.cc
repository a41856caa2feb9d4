#define DSV31_ISA_AVX2
#include "backends/cpu/kernels_isa.h"
