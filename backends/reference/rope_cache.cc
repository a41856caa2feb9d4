// What stands between the projections and attention: the optional norm of each head, the rotation by the row's position, and the
// write of the row's key and value into the cache. Only the first rope_dim values of a head turn.
#include "backends/reference/cache_slot.h"
#include "backends/reference/norm.h"
#include "backends/reference/ops.h"
#include "backends/reference/rope.h"

namespace dsv31::inline v1::reference {
namespace {

class RopeCacheOp final : public RowsOp {
 public:
  RopeCacheOp(const RopeCache& op, const PrepareContext& p)
      : op_(op), cache_(p.graph->caches[static_cast<std::size_t>(op.layer)]), q_norm_(p, op.q_norm), k_norm_(p, op.k_norm) {}

 private:
  std::int64_t scratch_doubles() const override { return op_.head_dim; }
  void run_tile(int, const RunContext& c, Rows rows, Scratch scratch) const override {
    double* x = scratch.doubles(op_.head_dim);
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      const CacheSlot slot = LayerCache{c, cache_, op_.layer, r}.at(c.step->positions[static_cast<std::size_t>(r)]);
      float* q = c.row(op_.q, r, op_.num_attention_heads * op_.head_dim);
      const float* k = c.row(op_.k, r, op_.num_key_value_heads * op_.head_dim);
      const float* v = c.row(op_.v, r, op_.num_key_value_heads * op_.head_dim);
      for (std::int64_t h = 0; h < op_.num_attention_heads; ++h, q += op_.head_dim) {
        turn(c, r, q, q_norm_, x);
        for (std::int64_t d = 0; d < op_.head_dim; ++d) q[d] = static_cast<float>(x[d]);
      }
      for (std::int64_t h = 0; h < op_.num_key_value_heads; ++h, k += op_.head_dim, v += op_.head_dim) {
        turn(c, r, k, k_norm_, x);
        for (std::int64_t d = 0; d < op_.head_dim; ++d) slot.set_key(h, d, static_cast<float>(x[d]));
        for (std::int64_t d = 0; d < op_.head_dim; ++d) slot.set_value(h, d, v[d]);
      }
    }
  }
  // x (head_dim) = rope(norm(head))
  void turn(const RunContext& c, std::int64_t r, const float* head, const RmsNorm& norm, double* x) const {
    std::copy_n(head, op_.head_dim, x);
    norm(x, op_.head_dim);
    if (op_.rope_dim > 0) rotate(x, op_.rope_dim, op_.pairing, c.row(op_.angles, r, op_.rope_dim));
  }

  RopeCache op_;
  CacheDesc cache_;
  RmsNorm q_norm_, k_norm_;
};

}  // namespace

std::unique_ptr<PreparedOp> prepare_op(const RopeCache& op, const PrepareContext& p) {
  return std::make_unique<RopeCacheOp>(op, p);
}

}  // namespace dsv31::inline v1::reference
