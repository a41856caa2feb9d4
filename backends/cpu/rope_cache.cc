// RopeCache: per head q = rope(q_norm(q)) in place, k = rope(k_norm(k)) and v into the cache block of the row's position.
// K lies transposed, so a row's keys go to every 64th element; a worker takes neighbouring rows of one kv head, which share those
// lines.
#include <string>

#include "backends/cpu/attention.h"
#include "backends/cpu/attention_kernels.h"
#include "backends/cpu/op.h"

namespace dsv31::inline v1::cpu {
namespace {

class PreparedRopeCache final : public PreparedOp {
 public:
  PreparedRopeCache(const RopeCache& op, const PrepareContext& context, Isa isa)
      : op_(op),
        kernels_(&attention_kernels(isa)),
        rows_(&row_kernels(isa)),
        q_norm_(vector_of(context, op.q_norm.weight)),
        k_norm_(vector_of(context, op.k_norm.weight)),
        windowed_(context.graph->caches[static_cast<std::size_t>(op.layer)].window > 0) {}

  std::size_t scratch_bytes(std::int64_t, int max_workers) const override {
    return static_cast<std::size_t>(max_workers * row_stride(op_.head_dim)) * sizeof(float);
  }
  int phases(const Step&) const override { return 1; }

  void run(int, const RunContext& context) const override {
    const std::int64_t rows = context.step->rows(), units = rows * op_.num_key_value_heads;
    const std::int64_t end = units * (context.worker + 1) / context.workers;
    for (std::int64_t u = units * context.worker / context.workers; u < end; ++u) {
      if (context.stopped()) return;
      one(context, u % rows, u / rows);
    }
  }

  std::string kernel() const override { return "f32"; }

 private:
  void one(const RunContext& context, std::int64_t r, std::int64_t kv_head) const {
    const Step& step = *context.step;
    const std::int64_t dim = op_.head_dim, group = op_.num_attention_heads / op_.num_key_value_heads;
    const bool interleaved = op_.pairing == Pairing::interleaved;
    const float* angles = op_.rope_dim > 0 ? context.row(op_.angles, r, op_.rope_dim) : nullptr;
    float* q = context.row(op_.q, r, op_.num_attention_heads * dim) + kv_head * group * dim;
    for (std::int64_t h = 0; h < group; ++h, q += dim) {
      if (q_norm_) rows_->rms_norm(q, q_norm_, op_.q_norm.eps, dim, q);
      if (angles) kernels_->turn(q, angles, op_.rope_dim, interleaved);
    }
    const float* from = context.row(op_.k, r, op_.num_key_value_heads * dim) + kv_head * dim;
    float* k = reinterpret_cast<float*>(context.scratch) + context.worker * row_stride(dim);
    if (k_norm_)
      rows_->rms_norm(from, k_norm_, op_.k_norm.eps, dim, k);
    else
      for (std::int64_t d = 0; d < dim; ++d) k[d] = from[d];
    if (angles) kernels_->turn(k, angles, op_.rope_dim, interleaved);

    const std::int64_t position = step.positions[static_cast<std::size_t>(r)], slot = position % kBlock;
    const SequenceRows& s = step.sequences[static_cast<std::size_t>(step.sequence_of_row[static_cast<std::size_t>(r)])];
    std::byte* block = step.cache.block(op_.layer, (windowed_ ? s.window_blocks : s.blocks)[position / kBlock]);
    const bool half = step.cache.type == DType::f16;
    const std::int64_t element = half ? 2 : 4;
    kernels_->cache(k, dim, block + (kv_head * dim * kBlock + slot) * element, kBlock, half);
    const float* v = context.row(op_.v, r, op_.num_key_value_heads * dim) + kv_head * dim;
    kernels_->cache(v, dim, block + ((op_.num_key_value_heads + kv_head) * dim * kBlock + slot * dim) * element, 1, half);
  }

  RopeCache op_;
  const AttentionKernels* kernels_;
  const RowKernels* rows_;
  const float* q_norm_;  // (head_dim) or null
  const float* k_norm_;  // (head_dim) or null
  bool windowed_;
};

}  // namespace

std::unique_ptr<PreparedOp> prepare_rope_cache(const RopeCache& op, const PrepareContext& context, const KernelTable&, Isa isa) {
  return std::make_unique<PreparedRopeCache>(op, context, isa);
}

}  // namespace dsv31::inline v1::cpu
