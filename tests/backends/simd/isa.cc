#include "backends/simd/isa.h"

#include "tests/catch.h"

using namespace dsv31;

TEST_CASE("instruction sets are named, and generic always runs") {
  CHECK(simd::isa_name(simd::Isa::generic) == "generic");
  CHECK(simd::isa_name(simd::Isa::avx2) == "avx2");
  CHECK(simd::isa_name(simd::Isa::avx512) == "avx512");
  CHECK(simd::isa_name(simd::Isa::amx) == "amx");
  CHECK(simd::isa_by_name("avx2") == simd::Isa::avx2);
  CHECK_FALSE(simd::isa_by_name("AVX2").has_value());
  CHECK_FALSE(simd::isa_by_name("").has_value());
  CHECK(simd::supported(simd::Isa::generic));
  CHECK(simd::supported(simd::best_isa()));
}

#if defined(__x86_64__) && defined(__GNUC__)
TEST_CASE("detection agrees with the compiler's runtime") {
  __builtin_cpu_init();
  CHECK(simd::supported(simd::Isa::avx2) == (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")));
  CHECK(simd::supported(simd::Isa::avx512) == (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl") &&
                                               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")));
}
#endif
