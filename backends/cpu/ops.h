// The ops of the CPU backends that are not attention; attention.h has those. Each is one file.
#pragma once

#include <memory>

#include "backends/cpu/matmul.h"

namespace dsv31::inline v1::cpu {

// REQUIRES: the op, its graph and its matrices fit each other; isa is one that this processor has.
std::unique_ptr<PreparedOp> prepare_embed(const Embed& op, const PrepareContext& context, const KernelTable& kernels, Isa isa);
std::unique_ptr<PreparedOp> prepare_linear(const Linear& op, const PrepareContext& context, const KernelTable& kernels, Isa isa);
std::unique_ptr<PreparedOp> prepare_join(const Join& op, const PrepareContext& context, const KernelTable& kernels, Isa isa);
std::unique_ptr<PreparedOp> prepare_gated_ffn(const GatedFfn& op, const PrepareContext& context, const KernelTable& kernels,
                                              Isa isa);
std::unique_ptr<PreparedOp> prepare_gate(const Gate& op, const PrepareContext& context, const KernelTable& kernels, Isa isa);
std::unique_ptr<PreparedOp> prepare_experts(const Experts& op, const PrepareContext& context, const KernelTable& kernels,
                                            Isa isa);
std::unique_ptr<PreparedOp> prepare_head(const Head& op, const PrepareContext& context, const KernelTable& kernels, Isa isa);

}  // namespace dsv31::inline v1::cpu
