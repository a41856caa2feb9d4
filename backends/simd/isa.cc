// Detection by CPUID and XGETBV: AVX state has to be enabled by the operating system before AVX instructions may run
// (Intel SDM volume 1, 14.3 and 15.2).
#include "backends/simd/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace dsv31::inline v1::simd {
namespace {

constexpr std::string_view kNames[kIsaCount] = {"generic", "avx2", "avx512", "amx"};

#if defined(__x86_64__)
bool has(std::uint32_t word, std::uint32_t bits) { return (word & bits) == bits; }

std::uint32_t enabled_state() {
  std::uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

Isa detect() {
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return Isa::generic;
  if (!has(c, bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C)) return Isa::generic;
  const std::uint32_t state = enabled_state();
  if (!has(state, 0x06)) return Isa::generic;  // xmm, ymm
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return Isa::generic;
  if (!has(b, bit_AVX2 | bit_BMI2)) return Isa::generic;
  if (!has(state, 0xe6)) return Isa::avx2;  // and opmask, zmm0-15 upper halves, zmm16-31
  if (!has(b, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL) || !has(c, bit_AVX512VNNI)) return Isa::avx2;
  return Isa::avx512;
}

// Linux 5.16 and later let a process use tiles once it asked (Documentation/arch/x86/xstate.rst).
bool tiles_allowed() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
bool has_tiles() {
  constexpr std::uint32_t kTile = 1u << 24, kInt8 = 1u << 25;
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && has(d, kTile | kInt8) && has(enabled_state(), 0x60000) && tiles_allowed();
}
#else
Isa detect() { return Isa::generic; }
bool has_tiles() { return false; }
#endif

}  // namespace

bool supported(Isa isa) noexcept { return vectors_of(isa) <= detect() && (isa != Isa::amx || has_tiles()); }
Isa best_isa() noexcept {
  const Isa isa = detect();
  return isa == Isa::avx512 && has_tiles() ? Isa::amx : isa;
}
std::string_view isa_name(Isa isa) noexcept { return kNames[static_cast<int>(isa)]; }

std::optional<Isa> isa_by_name(std::string_view name) noexcept {
  for (int i = 0; i < kIsaCount; ++i)
    if (kNames[i] == name) return static_cast<Isa>(i);
  return std::nullopt;
}

}  // namespace dsv31::inline v1::simd
