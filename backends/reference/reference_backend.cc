// The backend whose loops say what each op means. It runs everything, likes nothing, and is what the others are tested against.
// It computes with the exact values of the weights in double, in exact and fast alike; only the type of the cache differs.
#include <cstring>
#include <initializer_list>

#include "backends/reference/matrix.h"
#include "backends/reference/ops.h"
#include "dsv31/quant.h"

namespace dsv31::inline v1 {
namespace reference {
namespace {

bool decodable(const Graph& graph, std::initializer_list<MatrixId> ids) {
  for (const MatrixId id : ids)
    if (id != kNone && !format(graph.matrices[static_cast<std::size_t>(id)].type).weight) return false;
  return true;
}

struct WeightsDecodable {
  const Graph& graph;
  bool operator()(const Embed& op) const { return decodable(graph, {op.weight}); }
  bool operator()(const Angles&) const { return true; }
  bool operator()(const Linear& op) const {
    for (const Linear::Part& part : op.parts)
      if (!decodable(graph, {part.weight})) return false;
    return true;
  }
  bool operator()(const Join&) const { return true; }
  bool operator()(const RopeCache&) const { return true; }
  bool operator()(const Attention&) const { return true; }
  bool operator()(const MlaAttention& op) const { return decodable(graph, {op.k_b, op.v_b}); }
  bool operator()(const SparseIndex&) const { return true; }
  bool operator()(const Gate& op) const { return decodable(graph, {op.weight}); }
  bool operator()(const Experts& op) const {
    return decodable(graph, {op.gate, op.up, op.down, op.shared_gate, op.shared_up, op.shared_down});
  }
  bool operator()(const GatedFfn& op) const { return decodable(graph, {op.gate, op.up, op.down}); }
  bool operator()(const Head& op) const { return decodable(graph, {op.weight}); }
};

class ReferenceBackend final : public Backend {
 public:
  std::string_view name() const override { return "reference"; }
  bool supports(const Op& op, const Graph& graph, Numerics) const override { return std::visit(WeightsDecodable{graph}, op); }
  int affinity(const Op&, const Graph&, Numerics) const override { return 0; }

  std::string_view layout() const override { return "source"; }
  std::size_t packed_bytes(const MatrixDesc& matrix) const override { return matrix_bytes(matrix); }
  void pack(const MatrixDesc& matrix, std::int64_t row_begin, std::int64_t row_end, const std::byte* src,
            std::byte* packed) const override {
    const std::size_t bytes = row_bytes(matrix);
    std::memcpy(packed + static_cast<std::size_t>(row_begin) * bytes, src, static_cast<std::size_t>(row_end - row_begin) * bytes);
  }
  void unpack(const MatrixDesc& matrix, std::int64_t row_begin, std::int64_t row_end, const std::byte* packed,
              std::byte* dst) const override {
    const std::size_t bytes = row_bytes(matrix);
    std::memcpy(dst, packed + static_cast<std::size_t>(row_begin) * bytes, static_cast<std::size_t>(row_end - row_begin) * bytes);
  }

  std::unique_ptr<PreparedOp> prepare(const Op& op, const PrepareContext& context) const override {
    return std::visit([&](const auto& o) { return prepare_op(o, context); }, op);
  }
};

}  // namespace
}  // namespace reference

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<reference::ReferenceBackend>(); }

}  // namespace dsv31::inline v1
