// One word an op: plans, messages and the command line all use these.
#include "dsv31/op.h"

namespace dsv31::inline v1 {
namespace {

struct Name {
  const char* operator()(const Embed&) const { return "embed"; }
  const char* operator()(const Angles&) const { return "angles"; }
  const char* operator()(const Linear&) const { return "linear"; }
  const char* operator()(const Join&) const { return "join"; }
  const char* operator()(const RopeCache&) const { return "rope_cache"; }
  const char* operator()(const Attention&) const { return "attention"; }
  const char* operator()(const MlaAttention&) const { return "mla_attention"; }
  const char* operator()(const SparseIndex&) const { return "sparse_index"; }
  const char* operator()(const Gate&) const { return "gate"; }
  const char* operator()(const Experts&) const { return "experts"; }
  const char* operator()(const GatedFfn&) const { return "gated_ffn"; }
  const char* operator()(const Head&) const { return "head"; }
};

}  // namespace

const char* op_name(const Op& op) noexcept { return std::visit(Name{}, op); }

}  // namespace dsv31::inline v1
