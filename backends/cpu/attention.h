// Rotary angles, rope with the cache write, attention and latent attention of the CPU backends: how each op is prepared.
#pragma once

#include <memory>

#include "backends/cpu/matmul.h"

namespace dsv31::inline v1::cpu {

// REQUIRES: the op, its graph and its matrices fit each other (the model checks them); isa is one that this processor has.
// The prepared op keeps what it needs of the PrepareContext's fields by value and the graph's tables by pointer.
std::unique_ptr<PreparedOp> prepare_angles(const Angles& op, const PrepareContext& context, const KernelTable& kernels, Isa isa);
std::unique_ptr<PreparedOp> prepare_rope_cache(const RopeCache& op, const PrepareContext& context, const KernelTable& kernels,
                                               Isa isa);
std::unique_ptr<PreparedOp> prepare_attention(const Attention& op, const PrepareContext& context, const KernelTable& kernels,
                                              Isa isa);
std::unique_ptr<PreparedOp> prepare_mla_attention(const MlaAttention& op, const PrepareContext& context,
                                                  const KernelTable& kernels, Isa isa);
// MlaAttention over selected keys; prepare_mla_attention calls it.
std::unique_ptr<PreparedOp> prepare_sparse_attention(const MlaAttention& op, const PrepareContext& context,
                                                     const KernelTable& kernels, Isa isa);
std::unique_ptr<PreparedOp> prepare_sparse_index(const SparseIndex& op, const PrepareContext& context, const KernelTable& kernels,
                                                 Isa isa);

}  // namespace dsv31::inline v1::cpu
