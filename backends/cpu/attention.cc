// out_h = softmax(cap(scale * q_h . K_g^T)) V_g. Phases: stream 1; split (partials | merge) a wave.
#include "backends/cpu/attention.h"

#include <algorithm>
#include <string>

#include "backends/cpu/attention_tiles.h"

namespace dsv31::inline v1::cpu {
namespace {

constexpr std::size_t kSlotBudget = std::size_t{4} << 20;

class PreparedAttention final : public PreparedOp {
 public:
  PreparedAttention(const Attention& op, const AttentionShape& shape, Isa isa, DType cache_type)
      : op_(op),
        runner_(shape, attention_kernels(isa)),
        kernel_(std::string(simd::isa_name(isa)) + (cache_type == DType::f16 ? " f16" : " f32")) {}

  std::size_t scratch_bytes(std::int64_t max_rows, int max_workers) const override {
    return static_cast<std::size_t>(max_workers) * worker_bytes() + runner_.slot_bytes(max_rows, kSlotBudget);
  }

  int phases(const Step& step) const override {
    const Division d = runner_.divide({step.sequences}, kSlotBudget);
    return d.split ? static_cast<int>(2 * d.waves) : 1;
  }

  void run(int phase, const RunContext& context) const override {
    const Selection all{context.step->sequences};
    const Division d = runner_.divide(all, kSlotBudget);
    float* slots = reinterpret_cast<float*>(context.scratch + static_cast<std::size_t>(context.workers) * worker_bytes());
    if (phase % 2 == 1) return merge(d, phase / 2, context, slots);
    std::byte* scratch = context.scratch + static_cast<std::size_t>(context.worker) * worker_bytes();
    float* q = reinterpret_cast<float*>(scratch + runner_.scratch_bytes());  // (kTile, row_stride(head_dim))
    float* parts = q + kTile * row_stride(op_.head_dim);                     // (kTile, slot)
    TileItems items(runner_, all, d, phase / 2);
    TileItems::Item item;
    while (!context.stopped() && items.find(context.take(1), item)) {
      const Tile tile = pack(context, item, q);
      if (d.split) {
        const std::int64_t at = item.number - phase / 2 * d.chunks;
        float* row = slots + slot_row(item, item.first) * (d.chunks + 1) * runner_.slot();
        runner_.partial(context.step->cache, tile, runner_.partials(*item.sequence), item.number, row + at * runner_.slot(),
                        (d.chunks + 1) * runner_.slot(), scratch);
      } else if (runner_.stream(context, tile, parts, runner_.slot(), scratch)) {
        for (std::int64_t i = 0; i < tile.m; ++i) finish(context, item, item.first + i, parts + i * runner_.slot());
      }
    }
  }

  std::string kernel() const override { return kernel_; }

 private:
  std::int64_t group() const { return runner_.shape().group; }

  std::size_t worker_bytes() const {
    return runner_.scratch_bytes() +
           static_cast<std::size_t>(kTile * (row_stride(op_.head_dim) + runner_.slot())) * sizeof(float);
  }

  // Query rows (of slots) before query row i of the item's kv head.
  std::int64_t slot_row(const TileItems::Item& item, std::int64_t i) const {
    return item.rows_before * op_.num_attention_heads + item.kv_head * item.sequence->rows * group() + i;
  }

  Tile pack(const RunContext& context, const TileItems::Item& item, float* q) const {
    const std::int64_t stride = row_stride(op_.head_dim);
    for (std::int64_t i = 0; i < item.m; ++i)
      std::copy_n(head(context, op_.q, item, item.first + i), op_.head_dim, q + i * stride);
    return {.sequence = item.sequence,
            .kv_head = item.kv_head,
            .group = group(),
            .first = item.first,
            .m = item.m,
            .q = q,
            .q_stride = stride};
  }

  float* head(const RunContext& context, ValueId id, const TileItems::Item& item, std::int64_t i) const {
    return context.row(id, item.sequence->first_row + i / group(), op_.num_attention_heads * op_.head_dim) +
           (item.kv_head * group() + i % group()) * op_.head_dim;
  }

  void finish(const RunContext& context, const TileItems::Item& item, std::int64_t i, const float* part) const {
    runner_.kernels().finish(part, op_.head_dim, head(context, op_.out, item, i));
  }

  void merge(const Division& d, std::int64_t wave, const RunContext& context, float* slots) const {
    std::int64_t next = context.take(1), number = 0;
    TileItems::Item item;
    for (const SequenceRows& s : context.step->sequences) {
      item.sequence = &s;
      const Partials list = runner_.partials(s);
      for (item.kv_head = 0; item.kv_head < op_.num_key_value_heads; ++item.kv_head)
        for (std::int64_t i = 0; i < s.rows * group(); ++i, ++number) {
          if (number != next) continue;
          if (context.stopped()) return;
          float* row = slots + slot_row(item, i) * (d.chunks + 1) * runner_.slot();
          runner_.gather(d, wave, list, runner_.visible(s.window, s.position + i / group()), row);
          if (wave == d.waves - 1) finish(context, item, i, row + d.chunks * runner_.slot());
          next = context.take(1);
        }
      item.rows_before += s.rows;
    }
  }

  Attention op_;
  TileRunner runner_;
  std::string kernel_;
};

}  // namespace

std::unique_ptr<PreparedOp> prepare_attention(const Attention& op, const PrepareContext& context, const KernelTable&, Isa isa) {
  AttentionShape shape;
  shape.layer = op.layer;
  shape.kv_heads = op.num_key_value_heads;
  shape.group = op.num_attention_heads / op.num_key_value_heads;
  shape.k_width = shape.v_width = op.head_dim;
  shape.window = op.window;
  shape.window_table = context.graph->caches[static_cast<std::size_t>(op.layer)].window > 0;
  shape.scale = op.scale;
  shape.softcap = op.softcap;
  shape.max_chunks = (context.graph->context_length + kChunk - 1) / kChunk;
  if (op.window > 0) shape.max_chunks = std::min(shape.max_chunks, op.window / kChunk + 2);
  return std::make_unique<PreparedAttention>(op, shape, isa, context.cache_type);
}

}  // namespace dsv31::inline v1::cpu
