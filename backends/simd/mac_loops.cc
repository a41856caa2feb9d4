#include "backends/simd/mac_loops.h"

#include "backends/simd/isa.h"

namespace dsv31::inline v1 {

std::span<const MacLoop> mac_loops(std::string_view isa) {
#if defined(__x86_64__)
  const std::optional<simd::Isa> named = simd::isa_by_name(isa);
  if (!named || !simd::supported(*named)) return {};
  if (*named == simd::Isa::amx) return simd::amx::mac_loops();
  if (*named == simd::Isa::avx512) return simd::avx512::mac_loops();
  if (*named == simd::Isa::avx2) return simd::avx2::mac_loops();
#else
  (void)isa;
#endif
  return {};
}

void count_cycles(std::int64_t turns) {
  std::uint64_t x = 1, y = 3;
  asm volatile("" : "+r"(y));  // a register: processors of today add small constants without spending a cycle
  for (std::int64_t t = 0; t < turns; ++t) {
#pragma GCC unroll 64
    for (std::int64_t i = 0; i < kAdditions; ++i) {
      x += y;
      asm volatile("" : "+r"(x));  // so that none is folded into another
    }
  }
}

}  // namespace dsv31::inline v1
