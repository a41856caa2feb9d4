// One op of a program by itself: what it read in a step is copied, and then any prepared form of the op (the program's own, the
// reference's, one of another arithmetic) runs on that copy with a cache of its own.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "lib/sched/program.h"

namespace dsv31::inline v1::sched {

// Sixteen floats: a vector of these starts at a multiple of 64 bytes, as the rows of a value must.
struct alignas(64) FloatLine {
  float value[16];
};

// A value outside the arena, (rows, width) in rows of row_stride(width) floats.
class Rows {
 public:
  Rows() = default;
  Rows(std::int64_t rows, std::int64_t width)
      : rows_(rows), width_(width), lines_(static_cast<std::size_t>(rows * row_stride(width) / 16)) {}
  std::int64_t rows() const { return rows_; }
  std::int64_t width() const { return width_; }
  float* data() { return lines_.empty() ? nullptr : lines_[0].value; }
  float* row(std::int64_t r) { return data() + r * row_stride(width_); }
  const float* row(std::int64_t r) const { return lines_[0].value + r * row_stride(width_); }

 private:
  std::int64_t rows_ = 0, width_ = 0;
  std::vector<FloatLine> lines_;
};

using ValueRows = std::vector<std::pair<ValueId, Rows>>;
// REQUIRES: it is there.
const Rows& find(const ValueRows& values, ValueId id);
Rows& find(ValueRows& values, ValueId id);

// All rows belong to one sequence, and the logits of all are wanted.
struct OpInputs {
  std::size_t op = 0;
  std::vector<std::int32_t> tokens, positions;  // (n)
  ValueRows values;                             // what the op reads
  std::int32_t layer = -1;                      // of its cache, or -1
  DType cache_type = DType::f16;
  std::size_t block_bytes = 0;
  std::vector<std::int32_t> table;  // by kBlock positions: index of the block below, or -1
  std::vector<std::byte> cache;     // the layer's blocks before the op ran

  std::int64_t rows() const { return static_cast<std::int64_t>(tokens.size()); }
};

struct OpOutputs {
  ValueRows values;
  std::vector<std::byte> cache;
};

// The layer whose cache an op uses, or -1.
std::int32_t cache_layer(const Op& op);
// What `op` of the graph is about to read; `step` has one sequence, `value` gives where a value stands.
OpInputs capture(const Program& program, std::size_t op, const Step& step, const Workspace& workspace);

// Runs a prepared form of an op on the inputs. writes: the values it makes, with their widths. team null: on this thread alone.
OpOutputs run_alone(const PreparedOp& prepared, const OpInputs& in, std::span<const std::pair<ValueId, std::int64_t>> writes,
                    Team* team);
// The values that an op writes, with their widths.
std::vector<std::pair<ValueId, std::int64_t>> writes_of(const Op& op, const Graph& graph);

}  // namespace dsv31::inline v1::sched
