#define DSV31_ISA_GENERIC
#include "backends/cpu/kernels_isa.h"
