// Causal attention with grouped heads: heads / kv heads consecutive query heads share one key-value head.
// out_h = sum_t softmax_t(cap(scale * q_h . k_t)) v_t over the keys that the row sees.
#include "backends/reference/cache_slot.h"
#include "backends/reference/ops.h"
#include "backends/reference/softmax.h"

namespace dsv31::inline v1::reference {
namespace {

class AttentionOp final : public RowsOp {
 public:
  AttentionOp(const Attention& op, const PrepareContext& p)
      : op_(op), cache_(p.graph->caches[static_cast<std::size_t>(op.layer)]) {}

 private:
  std::int64_t scratch_doubles() const override { return row_stride(op_.head_dim); }
  void run_tile(int, const RunContext& c, Rows rows, Scratch scratch) const override {
    const std::int64_t head_dim = op_.head_dim, width = op_.num_attention_heads * head_dim;
    double* sum = scratch.doubles(head_dim);
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      const LayerCache cache{c, cache_, op_.layer, r};
      const VisibleKeys keys = keys_of_row(*c.step, op_.window, r);
      for (std::int64_t h = 0; h < op_.num_attention_heads && !c.stopped(); ++h) {
        const std::int64_t g = h / (op_.num_attention_heads / op_.num_key_value_heads);
        const float* q = c.row(op_.q, r, width) + h * head_dim;
        auto score = [&](std::int64_t n) {
          const CacheSlot slot = cache.at(keys.at(n));
          double dot = 0;
          for (std::int64_t d = 0; d < head_dim; ++d) dot += static_cast<double>(q[d]) * slot.key(g, d);
          return soft_cap(static_cast<double>(op_.scale) * dot, op_.softcap);
        };
        std::fill_n(sum, head_dim, 0.0);
        const double total = softmax_weights(keys.count(), score, [&](std::int64_t n, double p) {
          const CacheSlot slot = cache.at(keys.at(n));
          for (std::int64_t d = 0; d < head_dim; ++d) sum[d] += p * slot.value(g, d);
        });
        float* out = c.row(op_.out, r, width) + h * head_dim;
        for (std::int64_t d = 0; d < head_dim; ++d) out[d] = static_cast<float>(sum[d] / total);
      }
    }
  }

  Attention op_;
  CacheDesc cache_;
};

}  // namespace

std::unique_ptr<PreparedOp> prepare_op(const Attention& op, const PrepareContext& p) {
  return std::make_unique<AttentionOp>(op, p);
}

}  // namespace dsv31::inline v1::reference
