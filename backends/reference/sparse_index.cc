// The lightning indexer of sparse attention (DeepSeek-V3.2-Exp, section 2.1): a score of few small heads for every visible key,
// and the positions of the best ones. Weights may be negative: the rectifier stands before them. Scores are rounded to float32
// before they are compared, so that what ties there ties; the lowest position wins. Phase 0 writes the rows' keys to the cache,
// phase 1 selects.
#include <algorithm>
#include <bit>
#include <cmath>

#include "backends/reference/cache_slot.h"
#include "backends/reference/ops.h"
#include "backends/reference/rope.h"
#include "backends/reference/softmax.h"

namespace dsv31::inline v1::reference {
namespace {

class SparseIndexOp final : public RowsOp {
 public:
  SparseIndexOp(const SparseIndex& op, const PrepareContext& p)
      : op_(op),
        cache_(p.graph->caches[static_cast<std::size_t>(op.layer)]),
        norm_weight_(vector_of(p, op.k_norm_weight)),
        norm_bias_(vector_of(p, op.k_norm_bias)) {}
  int phases(const Step&) const override { return 2; }

 private:
  std::int64_t q_width() const { return op_.index_n_heads * op_.index_head_dim; }
  std::int64_t scratch_doubles() const override { return row_stride(q_width()) + 2 * row_stride(op_.index_topk); }
  void run_tile(int phase, const RunContext& c, Rows rows, Scratch scratch) const override {
    for (std::int64_t r = rows.begin; r < rows.end && !c.stopped(); ++r)
      phase == 0 ? write_cache(c, r, scratch) : select(c, r, scratch);
  }

  void write_cache(const RunContext& c, std::int64_t r, Scratch scratch) const {
    // k = rope(weight * (k - mean) / sqrt(var + eps) + bias)
    const std::int64_t dim = op_.index_head_dim;
    double* k = scratch.doubles(dim);
    std::copy_n(c.row(op_.k, r, dim), dim, k);
    double mean = 0, variance = 0;
    for (std::int64_t d = 0; d < dim; ++d) mean += k[d] / static_cast<double>(dim);
    for (std::int64_t d = 0; d < dim; ++d) variance += (k[d] - mean) * (k[d] - mean) / static_cast<double>(dim);
    const double scale = 1 / std::sqrt(variance + static_cast<double>(op_.k_norm_eps));
    for (std::int64_t d = 0; d < dim; ++d)
      k[d] = static_cast<double>(norm_weight_[d]) * ((k[d] - mean) * scale) + static_cast<double>(norm_bias_[d]);
    rotate(k, op_.qk_rope_head_dim, op_.pairing, c.row(op_.angles, r, op_.qk_rope_head_dim));
    const CacheSlot slot = LayerCache{c, cache_, op_.layer, r}.at(c.step->positions[static_cast<std::size_t>(r)]);
    for (std::int64_t d = 0; d < dim; ++d) slot.set_index_key(d, static_cast<float>(k[d]));
  }

  void select(const RunContext& c, std::int64_t r, Scratch scratch) const {
    const std::int64_t dim = op_.index_head_dim, heads = op_.index_n_heads;
    double* q = scratch.doubles(q_width());           // (index_n_heads, index_head_dim)
    double* best = scratch.doubles(op_.index_topk);   // scores, descending; equal ones in order of position
    double* where = scratch.doubles(op_.index_topk);  // their positions
    std::copy_n(c.row(op_.q, r, q_width()), q_width(), q);
    for (std::int64_t h = 0; h < heads; ++h)
      rotate(q + h * dim, op_.qk_rope_head_dim, op_.pairing, c.row(op_.angles, r, op_.qk_rope_head_dim));
    const float* weights = c.row(op_.weights, r, heads);
    const LayerCache cache{c, cache_, op_.layer, r};
    const VisibleKeys keys = keys_of_row(*c.step, 0, r);
    std::int64_t count = 0;
    for (std::int64_t n = 0; n < keys.count(); ++n) {
      const std::int64_t t = keys.at(n);
      const CacheSlot slot = cache.at(t);
      double score = 0;
      for (std::int64_t h = 0; h < heads; ++h) {
        double dot = 0;
        for (std::int64_t d = 0; d < dim; ++d) dot += q[h * dim + d] * slot.index_key(d);
        score += static_cast<double>(weights[h]) * std::max(dot, 0.0);
      }
      score = static_cast<double>(static_cast<float>(static_cast<double>(op_.scale) * score));
      std::int64_t at = count;  // behind all that are not smaller
      while (at > 0 && best[at - 1] < score) --at;
      if (at == op_.index_topk) continue;
      count = std::min(count + 1, op_.index_topk);
      std::copy_backward(best + at, best + count - 1, best + count);
      std::copy_backward(where + at, where + count - 1, where + count);
      best[at] = score;
      where[at] = static_cast<double>(t);
    }
    std::sort(where, where + count);
    float* out = c.row(op_.selected, r, op_.index_topk);
    for (std::int64_t i = 0; i < op_.index_topk; ++i)
      out[i] = std::bit_cast<float>(i < count ? static_cast<std::int32_t>(where[i]) : std::int32_t{-1});
  }

  SparseIndex op_;
  CacheDesc cache_;
  const float* norm_weight_;  // (index_head_dim)
  const float* norm_bias_;    // (index_head_dim)
};

}  // namespace

std::unique_ptr<PreparedOp> prepare_op(const SparseIndex& op, const PrepareContext& p) {
  return std::make_unique<SparseIndexOp>(op, p);
}

}  // namespace dsv31::inline v1::reference
