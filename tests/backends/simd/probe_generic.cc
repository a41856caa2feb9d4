#define DSV31_ISA_GENERIC
#define DSV31_PROBE kProbeGeneric
#include "tests/backends/simd/probe_isa.h"
