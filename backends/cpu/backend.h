// A backend made of the CPU ops and a table of kernels: `cpu` with the float formats, `quantized` with all of them.
#pragma once

#include <memory>
#include <string_view>

#include "backends/cpu/matmul.h"

namespace dsv31::inline v1::cpu {

enum class Claim : std::uint8_t {
  float_matrices,  // ops whose matrices are all float, and ops without matrices
  any_quantized,   // ops with at least one quantised matrix
};

// Throws unsupported where isa names none that this processor has; empty means the best it has.
Isa choose_isa(std::string_view isa);
std::unique_ptr<Backend> make_backend(std::string_view name, const KernelTable& kernels, Claim claim, Isa isa);

}  // namespace dsv31::inline v1::cpu
