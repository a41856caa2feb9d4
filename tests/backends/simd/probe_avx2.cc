#define DSV31_ISA_AVX2
#define DSV31_PROBE kProbeAvx2
#include "tests/backends/simd/probe_isa.h"
