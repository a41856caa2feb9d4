#define DSV31_ISA_AVX512
#define DSV31_PROBE kProbeAvx512
#include "tests/backends/simd/probe_isa.h"
