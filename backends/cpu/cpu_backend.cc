#include <fmt/format.h>

#include <vector>

#include "backends/cpu/attention.h"
#include "backends/cpu/backend.h"
#include "backends/cpu/ops.h"
#include "dsv31/error.h"
#include "dsv31/quant.h"

namespace dsv31::inline v1 {
namespace cpu {
namespace {

// Calls f on the ids of the matrices that an op has, kNone included.
struct EachMatrix {
  template <class F>
  static void visit(const Op& op, F f) {
    std::visit([&](const auto& o) { of(o, f); }, op);
  }

 private:
  template <class F>
  static void of(const Embed& op, F f) {
    f(op.weight);
  }
  template <class F>
  static void of(const Angles&, F) {}
  template <class F>
  static void of(const Linear& op, F f) {
    for (const Linear::Part& part : op.parts) f(part.weight);
  }
  template <class F>
  static void of(const Join&, F) {}
  template <class F>
  static void of(const RopeCache&, F) {}
  template <class F>
  static void of(const Attention&, F) {}
  template <class F>
  static void of(const MlaAttention& op, F f) {
    for (MatrixId id : {op.k_b, op.v_b}) f(id);
  }
  template <class F>
  static void of(const SparseIndex&, F) {}
  template <class F>
  static void of(const Gate& op, F f) {
    f(op.weight);
  }
  template <class F>
  static void of(const Experts& op, F f) {
    for (MatrixId id : {op.gate, op.up, op.down, op.shared_gate, op.shared_up, op.shared_down}) f(id);
  }
  template <class F>
  static void of(const GatedFfn& op, F f) {
    for (MatrixId id : {op.gate, op.up, op.down}) f(id);
  }
  template <class F>
  static void of(const Head& op, F f) {
    f(op.weight);
  }
};

class CpuBackend final : public Backend {
 public:
  CpuBackend(std::string_view name, const KernelTable& kernels, Claim claim, Isa isa)
      : name_(name), kernels_(kernels), claim_(claim), isa_(isa) {}

  std::string_view name() const override { return name_; }
  bool supports(const Op& op, const Graph& graph, Numerics numerics) const override {
    bool known = true, quantized = false;
    EachMatrix::visit(op, [&](MatrixId id) {
      if (id == kNone) return;
      const DType type = graph.matrices[static_cast<std::size_t>(id)].type;
      known = known && kernels_.format(type) != nullptr && kernels_.kernel(type, isa_, numerics.exact) != nullptr;
      quantized = quantized || float_packed_format(type) == nullptr;
    });
    return known && quantized == (claim_ == Claim::any_quantized);
  }
  int affinity(const Op&, const Graph&, Numerics) const override { return 10; }

  std::string_view layout() const override { return "n16k4"; }
  std::size_t packed_bytes(const MatrixDesc& matrix) const override { return packed(matrix).matrix_bytes(matrix); }
  void pack(const MatrixDesc& matrix, std::int64_t row_begin, std::int64_t row_end, const std::byte* src,
            std::byte* to) const override {
    packed(matrix).pack(matrix, row_begin, row_end, src, to);
  }
  void unpack(const MatrixDesc& matrix, std::int64_t row_begin, std::int64_t row_end, const std::byte* from,
              std::byte* dst) const override {
    packed(matrix).unpack(matrix, row_begin, row_end, from, dst);
  }

  std::unique_ptr<PreparedOp> prepare(const Op& op, const PrepareContext& context) const override {
    return std::visit([&](const auto& o) { return prepare_op(o, context); }, op);
  }

 private:
  const PackedFormat& packed(const MatrixDesc& matrix) const {
    const PackedFormat* f = kernels_.format(matrix.type);
    if (f == nullptr)
      throw Error{Code::unsupported, "cpu.pack",
                  fmt::format("got a matrix of type {}, expected one of backend {}", format(matrix.type).name, name_)};
    return *f;
  }
  std::unique_ptr<PreparedOp> prepare_op(const Embed& op, const PrepareContext& c) const {
    return prepare_embed(op, c, kernels_, isa_);
  }
  std::unique_ptr<PreparedOp> prepare_op(const Angles& op, const PrepareContext& c) const {
    return prepare_angles(op, c, kernels_, isa_);
  }
  std::unique_ptr<PreparedOp> prepare_op(const Linear& op, const PrepareContext& c) const {
    return prepare_linear(op, c, kernels_, isa_);
  }
  std::unique_ptr<PreparedOp> prepare_op(const Join& op, const PrepareContext& c) const {
    return prepare_join(op, c, kernels_, isa_);
  }
  std::unique_ptr<PreparedOp> prepare_op(const RopeCache& op, const PrepareContext& c) const {
    return prepare_rope_cache(op, c, kernels_, isa_);
  }
  std::unique_ptr<PreparedOp> prepare_op(const Attention& op, const PrepareContext& c) const {
    return prepare_attention(op, c, kernels_, isa_);
  }
  std::unique_ptr<PreparedOp> prepare_op(const MlaAttention& op, const PrepareContext& c) const {
    return prepare_mla_attention(op, c, kernels_, isa_);
  }
  std::unique_ptr<PreparedOp> prepare_op(const SparseIndex& op, const PrepareContext& c) const {
    return prepare_sparse_index(op, c, kernels_, isa_);
  }
  std::unique_ptr<PreparedOp> prepare_op(const Gate& op, const PrepareContext& c) const {
    return prepare_gate(op, c, kernels_, isa_);
  }
  std::unique_ptr<PreparedOp> prepare_op(const Experts& op, const PrepareContext& c) const {
    return prepare_experts(op, c, kernels_, isa_);
  }
  std::unique_ptr<PreparedOp> prepare_op(const GatedFfn& op, const PrepareContext& c) const {
    return prepare_gated_ffn(op, c, kernels_, isa_);
  }
  std::unique_ptr<PreparedOp> prepare_op(const Head& op, const PrepareContext& c) const {
    return prepare_head(op, c, kernels_, isa_);
  }

  std::string_view name_;
  const KernelTable& kernels_;
  Claim claim_;
  Isa isa_;
};

}  // namespace

Isa choose_isa(std::string_view isa) {
  if (isa.empty()) return simd::best_isa();
  const std::optional<Isa> named = simd::isa_by_name(isa);
  if (!named || !simd::supported(*named))
    throw Error{Code::unsupported, "isa",
                fmt::format("got {}, expected generic or a better one that this processor has (best: {})",
                            named ? isa : "an unknown name", simd::isa_name(simd::best_isa()))};
  return *named;
}

std::unique_ptr<Backend> make_backend(std::string_view name, const KernelTable& kernels, Claim claim, Isa isa) {
  return std::make_unique<CpuBackend>(name, kernels, claim, isa);
}

}  // namespace cpu

}  // namespace dsv31::inline v1
