// What a backend is: it says which ops it can run, packs the weights it wants, and prepares each op for running.
// For authors of backends; not a stable ABI.
//
// A prepared op is a sequence of phases. In a phase every worker calls run(phase, context) once, none waits for another inside
// it, and all that was written before a phase ended is visible in the next. Workers divide the work of a phase by themselves: by
// their number, or by taking items from the phase's cursor. Nothing is allocated while running. What comes out must not depend on
// the number of workers, on the other rows of the step, or on how a prompt was cut into steps (design: canonical arithmetic).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsv31/attention_window.h"
#include "dsv31/export.h"
#include "dsv31/op.h"

namespace dsv31::inline v1 {

struct Numerics {
  bool exact = false;    // float32 activations, caches and accumulators; weights at their exact values
  bool relaxed = false;  // results may depend on step shape and ISA within rounding (expanded MLA for long prefill, oneDNN)
};

// A matrix in the layout of the backend that packed it.
struct PackedMatrix {
  MatrixDesc desc;
  const std::byte* data = nullptr;  // 64-byte aligned
  std::size_t stride = 0;           // bytes from one matrix of the stack to the next
  const float* scales = nullptr;    // F8_E4M3 with block scales: (count, ceil(rows / 128), ceil(cols / 128)); else null
};

// The cache blocks of a model: a block id is kBlock positions of all layers, stored layer-major in slabs.
struct CacheView {
  DType type = DType::f16;                    // f16 or f32
  std::byte* const* slabs = nullptr;          // (slab count)
  std::int32_t slab_blocks = 1;               // blocks a slab holds
  const std::size_t* layer_offset = nullptr;  // (layers) of block 0 in a slab
  const std::size_t* layer_bytes = nullptr;   // (layers) of one block

  std::byte* block(std::int32_t layer, std::int32_t id) const {
    return slabs[id / slab_blocks] + layer_offset[layer] + static_cast<std::size_t>(id % slab_blocks) * layer_bytes[layer];
  }
};

// The rows [first_row, first_row + rows) of a step belong to one sequence, at positions position, position + 1, ...
struct SequenceRows {
  std::int64_t first_row = 0, rows = 0, position = 0;
  // Block id of each run of kBlock positions, from position 0 on; at least (position + rows + kBlock - 1) / kBlock entries.
  // Layers with a window use the second table, whose entries behind the window may be -1.
  const std::int32_t* blocks = nullptr;
  const std::int32_t* window_blocks = nullptr;
  AttentionWindow window{};  // of these rows, in all layers; a layer with a window of its own keeps the narrower of both
};

// The keys that a row sees, ascending: [sink_begin, sink_end), then [begin, position]. What lies between is not to be read.
struct VisibleKeys {
  std::int64_t sink_begin = 0, sink_end = 0, begin = 0, position = 0;

  constexpr std::int64_t sinks() const { return sink_end - sink_begin; }
  constexpr std::int64_t count() const { return sinks() + position + 1 - begin; }
  constexpr std::int64_t at(std::int64_t n) const { return n < sinks() ? sink_begin + n : begin + n - sinks(); }
};

// Of a row of a sequence in a layer whose own window is `layer_window`; 0: it has none. All bounds ascend with the position.
constexpr VisibleKeys visible_keys(const AttentionWindow& window, std::int64_t layer_window, std::int64_t position) {
  const bool hides = position >= window.hides_from();
  const std::int64_t low = layer_window > 0 ? std::max<std::int64_t>(position - layer_window + 1, 0) : 0;
  VisibleKeys keys{.sink_begin = low, .sink_end = low, .begin = low, .position = position};
  if (!hides) return keys;
  keys.sink_end = std::max(low, window.sinks);
  keys.begin = std::max(low, position - window.window + 1);
  if (keys.begin == low) keys.sink_end = low;  // the layer's window is the narrower one
  return keys;
}

struct Step {
  std::span<const std::int32_t> tokens;           // (n)
  std::span<const std::int32_t> positions;        // (n)
  std::span<const std::int32_t> sequence_of_row;  // (n), index into sequences
  std::span<const SequenceRows> sequences;
  std::span<const std::int32_t> logit_rows;  // (n_logits), ascending
  CacheView cache;

  std::int64_t rows() const { return static_cast<std::int64_t>(tokens.size()); }
};

struct RunContext {
  const Step* step = nullptr;
  float* const* values = nullptr;  // by ValueId
  std::byte* scratch = nullptr;    // scratch_bytes() of the op, shared by its workers, 64-byte aligned
  int worker = 0, workers = 1;
  std::atomic<std::int64_t>* cursor = nullptr;  // zero when the phase starts, shared by its workers
  std::atomic<bool>* stop = nullptr;            // set: leave at the next work item; the step's results are dropped
  const std::atomic<bool>* cancel = nullptr;    // the caller's wish to stop, or null

  // Read at every work item. Once true it stays true for the step, whatever the caller does to its token.
  bool stopped() const {
    if (stop->load(std::memory_order_relaxed)) return true;
    if (cancel == nullptr || !cancel->load(std::memory_order_relaxed)) return false;
    stop->store(true, std::memory_order_relaxed);
    return true;
  }
  // The first of the next `grain` items of the phase; past the last item when none is left.
  std::int64_t take(std::int64_t grain) const { return cursor->fetch_add(grain, std::memory_order_relaxed); }
  float* row(ValueId id, std::int64_t r, std::int64_t width) const { return values[id] + r * row_stride(width); }
};

class PreparedOp {
 public:
  virtual ~PreparedOp() = default;
  // Bytes of scratch for a step of at most max_rows rows run by at most max_workers workers.
  virtual std::size_t scratch_bytes(std::int64_t max_rows, int max_workers) const = 0;
  virtual int phases(const Step& step) const = 0;
  // Const and thread-safe. May throw; the step then fails and its results are dropped.
  virtual void run(int phase, const RunContext& context) const = 0;
  // "avx512 Q4_0*q8": the kernel chosen, for the plan.
  virtual std::string kernel() const = 0;
};

struct PrepareContext {
  const Graph* graph = nullptr;
  const PackedMatrix* matrices = nullptr;  // by MatrixId; data is null while a plan is made without weights
  const float* const* vectors = nullptr;   // by VectorId; null while a plan is made without weights
  Numerics numerics;
  DType cache_type = DType::f16;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  virtual bool supports(const Op& op, const Graph& graph, Numerics numerics) const = 0;
  // How well the backend likes a supported op: the highest wins, earlier backends win ties.
  virtual int affinity(const Op& op, const Graph& graph, Numerics numerics) const = 0;

  // The packed layout. Backends with the same layout name share packed matrices; packing is a bijection.
  virtual std::string_view layout() const = 0;
  virtual std::size_t packed_bytes(const MatrixDesc& matrix) const = 0;  // of one matrix of the stack, a multiple of 64
  // Rows are packed in ranges that start at a multiple of 16 and end at one or at the last row. src holds the rows' blocks,
  // packed points to the start of the matrix. Ranges may be packed concurrently.
  virtual void pack(const MatrixDesc& matrix, std::int64_t row_begin, std::int64_t row_end, const std::byte* src,
                    std::byte* packed) const = 0;
  virtual void unpack(const MatrixDesc& matrix, std::int64_t row_begin, std::int64_t row_end, const std::byte* packed,
                      std::byte* dst) const = 0;

  virtual std::unique_ptr<PreparedOp> prepare(const Op& op, const PrepareContext& context) const = 0;
};

// The built-in backends, best first. isa: "generic", "avx2", "avx512", "amx", or empty for the best this processor has.
// Throws unsupported for an isa that this build or processor lacks. Defined in backends/builtin.cc, the only list of them.
std::unique_ptr<Backend> make_reference_backend();
std::unique_ptr<Backend> make_cpu_backend(std::string_view isa);
std::unique_ptr<Backend> make_quantized_backend(std::string_view isa);
struct BuiltinBackends {
  std::vector<std::unique_ptr<Backend>> list;
  std::string isa;  // the one in use
};
BuiltinBackends builtin_backends(std::string_view isa);

}  // namespace dsv31::inline v1
