// Loops that measure what a processor can do: one form of multiply-accumulate each, all operands in registers, so that no product
// of that form is faster. For authors of backends; not a stable ABI.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "dsv31/tensor.h"

namespace dsv31::inline v1 {

struct MacLoop {
  std::string_view form;         // "u4*s8": unsigned codes of 4 bits by int8
  std::span<const DType> types;  // the weights whose products have this form
  std::int64_t macs = 0;         // multiply-accumulates of a turn
  void (*run)(std::int64_t turns) = nullptr;
};

// Of an instruction set; empty for "generic" and for one that this processor lacks.
std::span<const MacLoop> mac_loops(std::string_view isa);

// kAdditions dependent additions a turn, a cycle each: a clock of the core itself.
inline constexpr std::int64_t kAdditions = 64;
void count_cycles(std::int64_t turns);

}  // namespace dsv31::inline v1
