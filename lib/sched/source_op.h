// An op over a part of its weights as they stand in the model's files, for the plain reference: packed matrices are unpacked, of
// large ones a few panels of rows, of a stack of experts a few experts. What the part makes are some columns of the op's outputs.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "lib/sched/op_probe.h"
#include "lib/sched/placement.h"

namespace dsv31::inline v1::sched {

// Columns of a value of the model's op that the part makes as value `made`, side by side; columns empty: all.
struct Slice {
  ValueId value = kNone, made = kNone;
  std::int64_t width = 0;  // of `made`
  std::vector<std::int64_t> columns;
};

struct SourceParts {
  const Graph* graph = nullptr;
  const BackendList* backends = nullptr;
  const Placement* placement = nullptr;  // that packed the matrices
  WeightView weights;
  const Backend* reference = nullptr;
  std::shared_ptr<Accountant> accountant;
  Numerics numerics;
  DType cache_type = DType::f16;
};

// Experts that are compared in a layer, at least.
inline constexpr std::int64_t kCheckedExperts = 4;
// Weights that the part of op `op` has, about.
std::int64_t part_weights(const Op& op, const Graph& graph);
// The experts of layer `layer` that are compared: ascending, spread over all.
std::vector<std::int32_t> checked_experts(const Experts& op, std::int32_t layer);

class SourceOp {
 public:
  // The inputs are those of the model's op; the part's own stand in inputs(). bias_nudge, for a Gate: added to its bias.
  SourceOp(const SourceParts& parts, std::size_t op, const OpInputs& in, const std::vector<float>* bias_nudge = nullptr);

  const OpInputs& inputs() const { return in_; }
  const std::vector<Slice>& slices() const { return slices_; }
  OpOutputs run(Team* team) const;

 private:
  MatrixId take_rows(MatrixId id, const std::vector<std::pair<std::int64_t, std::int64_t>>& ranges);
  MatrixId take_stack(MatrixId id, const std::vector<std::int32_t>& indices);
  MatrixId take_all(MatrixId id);
  VectorId take_columns(VectorId id, const std::vector<std::int64_t>& columns);
  void reduce(Embed& op);
  void reduce(Linear& op);
  void reduce(Gate& op, const std::vector<float>* bias_nudge);
  void reduce(Experts& op);
  void reduce(Head& op);
  // A value of its own for the columns of an op's output, and for the residual's.
  ValueId output(ValueId value, std::vector<std::int64_t> columns, std::int64_t width);
  ValueId residual(ValueId value, const std::vector<std::int64_t>& columns);

  const SourceParts parts_;
  OpInputs in_;
  Op op_;
  std::vector<PackedMatrix> matrices_;
  std::vector<const float*> vectors_;
  std::vector<Buffer> storage_;
  std::vector<std::vector<float>> floats_;
  std::vector<Slice> slices_;
  ValueId next_value_;
};

}  // namespace dsv31::inline v1::sched
