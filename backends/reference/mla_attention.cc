// Multi-head latent attention (DeepSeek-V2 paper, section 2.1), absorbed. The cache holds one vector a position for all heads,
// [latent | k_pe]; the projections W_UK and W_UV, which would make keys and values of the latent, are applied to the query and to
// the result instead: q . (W_UK c) = (W_UK^T q) . c, and sum_t p_t W_UV c_t = W_UV sum_t p_t c_t.
// Where the keys are selected, the sums run over the list instead of all visible positions.
// Phase 0 writes the rows' own vectors to the cache, phase 1 attends.
#include <bit>

#include "backends/reference/cache_slot.h"
#include "backends/reference/matrix.h"
#include "backends/reference/norm.h"
#include "backends/reference/ops.h"
#include "backends/reference/rope.h"
#include "backends/reference/softmax.h"

namespace dsv31::inline v1::reference {
namespace {

class MlaAttentionOp final : public RowsOp {
 public:
  MlaAttentionOp(const MlaAttention& op, const PrepareContext& p)
      : op_(op),
        cache_(p.graph->caches[static_cast<std::size_t>(op.layer)]),
        kv_norm_(p, op.kv_norm),
        k_b_(matrix_of(p, op.k_b)),
        v_b_(matrix_of(p, op.v_b)),
        index_topk_(op.selected == kNone ? 0 : p.graph->values[static_cast<std::size_t>(op.selected)].width) {}
  int phases(const Step&) const override { return 2; }

 private:
  std::int64_t scratch_doubles() const override {
    return tile_doubles(op_.qk_nope_head_dim) + tile_doubles(op_.qk_rope_head_dim) + 2 * tile_doubles(op_.kv_lora_rank) +
           tile_doubles(op_.v_head_dim) + panel_doubles(std::max(op_.qk_nope_head_dim, op_.kv_lora_rank)) +
           row_stride(op_.kv_lora_rank + op_.qk_rope_head_dim);
  }
  void run_tile(int phase, const RunContext& c, Rows rows, Scratch scratch) const override {
    phase == 0 ? write_cache(c, rows, scratch) : attend(c, rows, scratch);
  }

  void write_cache(const RunContext& c, Rows rows, Scratch scratch) const {
    const std::int64_t width = op_.kv_lora_rank + op_.qk_rope_head_dim;
    double* x = scratch.doubles(width);  // [latent | k_pe]
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      std::copy_n(c.row(op_.c, r, width), width, x);
      kv_norm_(x, op_.kv_lora_rank);
      rotate(x + op_.kv_lora_rank, op_.qk_rope_head_dim, op_.pairing, c.row(op_.angles, r, op_.qk_rope_head_dim));
      const CacheSlot slot = LayerCache{c, cache_, op_.layer, r}.at(c.step->positions[static_cast<std::size_t>(r)]);
      for (std::int64_t d = 0; d < width; ++d) slot.set_latent(d, static_cast<float>(x[d]));
    }
  }

  void attend(const RunContext& c, Rows rows, Scratch scratch) const {
    const std::int64_t nope = op_.qk_nope_head_dim, pe = op_.qk_rope_head_dim, rank = op_.kv_lora_rank, m = rows.size();
    const Tile q_nope = scratch.tile(m, nope), q_pe = scratch.tile(m, pe), q_latent = scratch.tile(m, rank);
    const Tile z = scratch.tile(m, rank), out = scratch.tile(m, op_.v_head_dim);
    double* panel = scratch.doubles(panel_doubles(std::max(nope, rank)));
    for (std::int64_t h = 0; h < op_.num_attention_heads && !c.stopped(); ++h) {
      for (std::int64_t i = 0; i < m; ++i) {
        const float* q = c.row(op_.q, rows.begin + i, op_.num_attention_heads * (nope + pe)) + h * (nope + pe);  // [nope | pe]
        std::copy_n(q, nope, q_nope.row(i));
        std::copy_n(q + nope, pe, q_pe.row(i));
        rotate(q_pe.row(i), pe, op_.pairing, c.row(op_.angles, rows.begin + i, pe));
      }
      multiply(c, k_b_, h, q_nope, q_latent, panel);
      for (std::int64_t i = 0; i < m; ++i) {
        const LayerCache cache{c, cache_, op_.layer, rows.begin + i};
        const VisibleKeys keys = keys_of_row(*c.step, 0, rows.begin + i);
        const float* listed = op_.selected == kNone ? nullptr : c.row(op_.selected, rows.begin + i, index_topk_);
        const std::int64_t count = listed == nullptr ? keys.count() : std::min(keys.count(), index_topk_);
        auto at = [&](std::int64_t n) { return listed == nullptr ? keys.at(n) : std::bit_cast<std::int32_t>(listed[n]); };
        auto score = [&](std::int64_t n) {
          const CacheSlot slot = cache.at(at(n));
          double dot = 0;
          for (std::int64_t d = 0; d < rank; ++d) dot += q_latent.row(i)[d] * slot.latent(d);
          for (std::int64_t d = 0; d < pe; ++d) dot += q_pe.row(i)[d] * slot.latent(rank + d);
          return static_cast<double>(op_.scale) * dot;
        };
        std::fill_n(z.row(i), rank, 0.0);
        const double total = softmax_weights(count, score, [&](std::int64_t n, double p) {
          const CacheSlot slot = cache.at(at(n));
          for (std::int64_t d = 0; d < rank; ++d) z.row(i)[d] += p * slot.latent(d);
        });
        for (std::int64_t d = 0; d < rank; ++d) z.row(i)[d] /= total;
      }
      multiply(c, v_b_, h, z, out, panel);
      for (std::int64_t i = 0; i < m; ++i) {
        float* to = c.row(op_.out, rows.begin + i, op_.num_attention_heads * op_.v_head_dim) + h * op_.v_head_dim;
        for (std::int64_t d = 0; d < op_.v_head_dim; ++d) to[d] = static_cast<float>(out.row(i)[d]);
      }
    }
  }

  MlaAttention op_;
  CacheDesc cache_;
  RmsNorm kv_norm_;
  PackedMatrix k_b_;  // (num_attention_heads, kv_lora_rank, qk_nope_head_dim)
  PackedMatrix v_b_;  // (num_attention_heads, v_head_dim, kv_lora_rank)
  std::int64_t index_topk_;
};

}  // namespace

std::unique_ptr<PreparedOp> prepare_op(const MlaAttention& op, const PrepareContext& p) {
  return std::make_unique<MlaAttentionOp>(op, p);
}

}  // namespace dsv31::inline v1::reference
