// Which instruction sets the kernels are written for, and which of them this processor and its operating system can run.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace dsv31::inline v1::simd {

// avx2 means AVX2, FMA, F16C and BMI2 (x86-64-v3); avx512 adds F, BW, DQ, VL and VNNI (Ice Lake, Zen 4 and later).
enum class Isa : std::uint8_t { generic, avx2, avx512 };
inline constexpr int kIsaCount = 3;

// True where the processor has the instructions and the operating system saves their registers. Thread-safe, not cached.
bool supported(Isa isa) noexcept;
Isa best_isa() noexcept;
std::string_view isa_name(Isa isa) noexcept;
std::optional<Isa> isa_by_name(std::string_view name) noexcept;

}  // namespace dsv31::inline v1::simd
