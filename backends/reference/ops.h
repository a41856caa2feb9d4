// One function an op: prepares it for running with the weights of `p`. Each stands in the file of its op.
#pragma once

#include <memory>

#include "dsv31/backend.h"

namespace dsv31::inline v1::reference {

std::unique_ptr<PreparedOp> prepare_op(const Embed& op, const PrepareContext& p);
std::unique_ptr<PreparedOp> prepare_op(const Angles& op, const PrepareContext& p);
std::unique_ptr<PreparedOp> prepare_op(const Linear& op, const PrepareContext& p);
std::unique_ptr<PreparedOp> prepare_op(const Join& op, const PrepareContext& p);
std::unique_ptr<PreparedOp> prepare_op(const RopeCache& op, const PrepareContext& p);
std::unique_ptr<PreparedOp> prepare_op(const Attention& op, const PrepareContext& p);
std::unique_ptr<PreparedOp> prepare_op(const MlaAttention& op, const PrepareContext& p);
std::unique_ptr<PreparedOp> prepare_op(const SparseIndex& op, const PrepareContext& p);
std::unique_ptr<PreparedOp> prepare_op(const Gate& op, const PrepareContext& p);
std::unique_ptr<PreparedOp> prepare_op(const Experts& op, const PrepareContext& p);
std::unique_ptr<PreparedOp> prepare_op(const GatedFfn& op, const PrepareContext& p);
std::unique_ptr<PreparedOp> prepare_op(const Head& op, const PrepareContext& p);

}  // namespace dsv31::inline v1::reference
