// What the rest of the library asks of a Graph (dsv31/op.h): is it well formed, what does an op touch, how long does each value
// live, and where in one arena does it stand.
//
// A graph is a straight line of ops, so the life of a value is one interval of op indices and placing values is interval packing;
// nothing here searches or iterates to a fixed point.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dsv31/op.h"

namespace dsv31::inline v1::graph {

// Ids an op touches, kNone left out, in the order of its fields. A value updated in place stands in reads and in writes: the
// residual of a Linear, GatedFfn or Experts whose out is its residual, and the q of RopeCache. MlaAttention may overwrite its q
// and c, SparseIndex its q and k: they are in reads only, and no later op may read them before it writes them (validate checks
// it).
struct OpUse {
  std::vector<ValueId> reads, writes;
  std::vector<MatrixId> matrices;
  std::vector<VectorId> vectors;
};
OpUse uses(const Op& op);

// Throws mismatch, naming op and field, where an id is out of range, a shape does not fit its neighbours, a value is read before
// it is written, or an op's layer has no cache of its kind.
void validate(const Graph& graph);

// First op that writes the value and last op that touches it; graph.hidden, graph.logits and the draft layer's results live to
// the end of the ops, and its input from its first op on. An unused value has first = last = -1.
struct Lifetime {
  std::int32_t first = -1, last = -1;
};
std::vector<Lifetime> lifetimes(const Graph& graph);

// Byte offset of each value in one arena: values that are alive at the same op never overlap; offsets are multiples of 64. A
// value takes rows * row_stride(width) floats, rows being max_logit_rows for logits and max_rows for all others. Throws limit on
// overflow.
struct ArenaPlan {
  std::vector<std::size_t> offset;  // by ValueId
  std::size_t bytes = 0;
};
ArenaPlan plan_arena(const Graph& graph, std::int64_t max_rows, std::int64_t max_logit_rows);

// One line an op: "12 linear x(64) -> q(128) k(32) v(32)"; for logs and the command line.
std::string summary(const Graph& graph);

// Appends to a graph and hands out ids.
class Builder {
 public:
  Builder(std::int64_t vocab_size, std::int64_t hidden_size, std::int64_t context_length);

  ValueId value(std::int64_t width);
  ValueId logits(std::int64_t width);
  MatrixId matrix(const MatrixDesc& desc);
  VectorId vector(std::int64_t width);
  std::int32_t cache(const CacheDesc& desc);  // the layer's index
  void add(Op op);
  // What is added from now on is the draft layer. state: the trunk's, as Graph has it.
  void begin_draft(ValueId state, ValueId draft_state);
  void end_draft(ValueId next, ValueId logits);
  // The validated graph; the builder is empty afterwards.
  Graph finish(ValueId hidden, ValueId logits);

 private:
  Graph graph_;
};

}  // namespace dsv31::inline v1::graph
