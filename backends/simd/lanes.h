// Sixteen float32 lanes with one interface and the same bits on every instruction set.
//
// A kernel is written once on V16 (floats), I16 (int32) and M16 (a mask) and compiled once an instruction set: the .cc defines
// DSV31_ISA_GENERIC, DSV31_ISA_AVX2 or DSV31_ISA_AVX512 before its first include, and all names here land in
// dsv31::simd::generic, avx2 or avx512; DSV31_ISA expands to that name. Every operation is either exact or rounds once to
// nearest, so a kernel that only uses these gives equal bits everywhere (the bits of a NaN excepted). All pointers may have any
// alignment.
//
// Files compiled for an instruction set hold nothing but code in such a namespace and raw loops: an inline function of std
// compiled there could be the copy that the linker keeps, and then a plain processor would run it.
#pragma once

#include <cstdint>

#if defined(DSV31_ISA_AVX512)
#define DSV31_ISA avx512
#include "backends/simd/lanes_avx512.h"
#elif defined(DSV31_ISA_AVX2)
#define DSV31_ISA avx2
#include "backends/simd/lanes_avx2.h"
#elif defined(DSV31_ISA_GENERIC)
#define DSV31_ISA generic
#include "backends/simd/lanes_generic.h"
#else
#error "define DSV31_ISA_GENERIC, DSV31_ISA_AVX2 or DSV31_ISA_AVX512 before including lanes.h"
#endif

namespace dsv31::inline v1::simd::DSV31_ISA {

// Scalar twins, each rounded once.
DSV31_LANES float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DSV31_LANES float sqrt(float a) { return __builtin_sqrtf(a); }

DSV31_LANES V16 zero() { return set1(0.0f); }
DSV31_LANES V16 neg(V16 a) { return as_float(bit_xor(as_int(a), set1i(INT32_MIN))); }
DSV31_LANES V16 abs(V16 a) { return as_float(bit_and(as_int(a), set1i(INT32_MAX))); }
DSV31_LANES M16 is_nan(V16 a) { return mask_not(equal(a, a)); }

}  // namespace dsv31::inline v1::simd::DSV31_ISA
