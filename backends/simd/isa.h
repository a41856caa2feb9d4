// Which instruction sets the kernels are written for, and which of them this processor and its operating system can run.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace dsv31::inline v1::simd {

// avx2 means AVX2, FMA, F16C and BMI2 (x86-64-v3); avx512 adds F, BW, DQ, VL and VNNI (Ice Lake, Zen 4 and later),
// amx the tiles with int8 products (Sapphire Rapids and later).
enum class Isa : std::uint8_t { generic, avx2, avx512, amx };
inline constexpr int kIsaCount = 4;

// True where the processor has the instructions and the operating system saves their registers. Thread-safe, not cached. Asking
// for amx asks Linux to let this process use tiles, which it has to be asked once: threads that never use one notice nothing but
// that a new alternative signal stack has to hold AT_MINSIGSTKSZ bytes.
bool supported(Isa isa) noexcept;
Isa best_isa() noexcept;
// The instruction set of the kernels that amx has none of its own of.
constexpr Isa vectors_of(Isa isa) { return isa == Isa::amx ? Isa::avx512 : isa; }
std::string_view isa_name(Isa isa) noexcept;
std::optional<Isa> isa_by_name(std::string_view name) noexcept;

}  // namespace dsv31::inline v1::simd
