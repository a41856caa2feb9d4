// The lightning indexer: scores of all visible keys of a row, and the positions of the index_topk best. Rows that see no more
// than index_topk keys take them all, unscored. Behind a window the blocks of the sinks are read, then those of the window; where
// these share a block it is read for either part of its keys.
//
// Many rows: a worker scans the keys of one row after the other. Few rows: the keys of a row are cut into kParts runs, each
// leaves its best, and a further phase takes the best of those; which is the same set, since the order of scores and positions is
// total. Phases: keys to the cache, queries turned, short lists | scans | the best of the parts, where the rows are few.
#include <algorithm>
#include <bit>
#include <string>

#include "backends/cpu/attention.h"
#include "backends/cpu/attention_kernels.h"
#include "backends/cpu/op.h"
#include "backends/cpu/top_positions.h"

namespace dsv31::inline v1::cpu {
namespace {

constexpr std::int64_t kFewRows = 8;
constexpr std::int64_t kParts = 16;
constexpr std::int64_t kCacheRows = 4;  // in a work item

class PreparedSparseIndex final : public PreparedOp {
 public:
  PreparedSparseIndex(const SparseIndex& op, const PrepareContext& context, Isa isa)
      : op_(op),
        kernels_(&attention_kernels(isa)),
        norm_weight_(vector_of(context, op.k_norm_weight)),
        norm_bias_(vector_of(context, op.k_norm_bias)),
        latent_(context.graph->caches[static_cast<std::size_t>(op.layer)].latent),
        kernel_(simd::isa_name(isa)) {}

  std::size_t scratch_bytes(std::int64_t max_rows, int max_workers) const override {
    Area shared, own;
    place_shared(shared, max_rows);
    place_own(own);
    return shared.used() + own.used() * static_cast<std::size_t>(max_workers);
  }

  int phases(const Step& step) const override {
    const std::int64_t scanned = scanned_rows(step);
    return scanned == 0 ? 1 : scanned > kFewRows ? 2 : 3;
  }

  void run(int phase, const RunContext& c) const override {
    const Step& step = *c.step;
    Area shared_area(c.scratch), own_size;
    const Shared shared = place_shared(shared_area, step.rows());
    place_own(own_size);
    Area own_area(c.scratch + shared_area.used() + own_size.used() * static_cast<std::size_t>(c.worker));
    const Own own = place_own(own_area);
    if (phase == 0) return prepare_rows(c);
    const std::int64_t rows = scanned_rows(step), parts = rows > kFewRows ? 1 : kParts;
    std::int64_t row = -1, nth = -1;  // the nth row that is scanned
    const auto find = [&](std::int64_t n) {
      while (nth < n)
        if (scanned(step, ++row)) ++nth;
      return row;
    };
    if (phase == 1) {
      for (std::int64_t item = c.take(1); item < rows * parts && !c.stopped(); item = c.take(1)) {
        const std::int64_t r = find(item / parts), blocks = sink_blocks(visible(step, r)) + window_blocks(visible(step, r));
        TopPositions top = start(own);
        if (!scan(c, r, blocks * (item % parts) / parts, blocks * (item % parts + 1) / parts, own, top)) return;
        if (parts == 1)
          write(c, r, top);
        else
          keep(shared, item, top);
      }
    } else {
      for (std::int64_t n = c.take(1); n < rows && !c.stopped(); n = c.take(1)) {
        TopPositions top = start(own);
        for (std::int64_t part = n * kParts; part < (n + 1) * kParts; ++part) add(shared, part, top);
        top.cut();
        write(c, find(n), top);
      }
    }
  }

  std::string kernel() const override { return kernel_; }

 private:
  struct Shared {
    std::int32_t* counts;              // (rows * kParts)
    std::int32_t *scores, *positions;  // (rows * kParts, index_topk)
  };
  struct Own {
    float *products, *block;                   // (8, kBlock), (kBlock)
    std::int32_t *scores, *positions, *spare;  // (capacity())
  };

  std::int64_t capacity() const { return TopPositions::capacity(op_.index_topk, kBlock); }
  Shared place_shared(Area& area, std::int64_t rows) const {
    const std::int64_t lists = std::min(rows, kFewRows) * kParts;
    Shared s{};
    s.counts = area.take<std::int32_t>(lists);
    s.scores = area.take<std::int32_t>(lists * op_.index_topk);
    s.positions = area.take<std::int32_t>(lists * op_.index_topk);
    return s;
  }
  Own place_own(Area& area) const {
    Own o{};
    o.products = area.take<float>(8 * kBlock);
    o.block = area.take<float>(kBlock);
    o.scores = area.take<std::int32_t>(capacity());
    o.positions = area.take<std::int32_t>(capacity());
    o.spare = area.take<std::int32_t>(capacity());
    return o;
  }
  TopPositions start(const Own& own) const { return {op_.index_topk, capacity(), own.scores, own.positions, own.spare}; }

  static VisibleKeys visible(const Step& step, std::int64_t r) {
    return visible_keys(sequence(step, r).window, 0, step.positions[static_cast<std::size_t>(r)]);
  }
  static std::int64_t sink_blocks(const VisibleKeys& row) { return (row.sink_end + kBlock - 1) / kBlock; }
  static std::int64_t window_blocks(const VisibleKeys& row) { return row.position / kBlock - row.begin / kBlock + 1; }
  bool scanned(const Step& step, std::int64_t r) const { return visible(step, r).count() > op_.index_topk; }
  std::int64_t scanned_rows(const Step& step) const {
    std::int64_t n = 0;
    for (std::int64_t r = 0; r < step.rows(); ++r) n += scanned(step, r);
    return n;
  }
  static const SequenceRows& sequence(const Step& step, std::int64_t r) {
    return step.sequences[static_cast<std::size_t>(step.sequence_of_row[static_cast<std::size_t>(r)])];
  }
  // Keys of a block, (index_head_dim, kBlock): they stand behind its latents.
  std::byte* keys(const Step& step, std::int64_t r, std::int64_t block) const {
    return step.cache.block(op_.layer, sequence(step, r).blocks[block]) + latent_ * kBlock * (half(step) ? 2 : 4);
  }
  static bool half(const Step& step) { return step.cache.type == DType::f16; }

  void prepare_rows(const RunContext& c) const {
    const Step& step = *c.step;
    const std::int64_t n = step.rows(), dim = op_.index_head_dim;
    const bool interleaved = op_.pairing == Pairing::interleaved;
    for (std::int64_t first = c.take(kCacheRows); first < n; first = c.take(kCacheRows)) {
      if (c.stopped()) return;
      for (std::int64_t r = first; r < std::min(n, first + kCacheRows); ++r) {
        const float* angles = c.row(op_.angles, r, op_.qk_rope_head_dim);
        float* k = c.row(op_.k, r, dim);
        kernels_->layer_norm(k, norm_weight_, norm_bias_, op_.k_norm_eps, dim, k);
        kernels_->turn(k, angles, op_.qk_rope_head_dim, interleaved);
        const VisibleKeys row = visible(step, r);
        const std::int64_t position = row.position;
        kernels_->cache(k, dim, keys(step, r, position / kBlock) + position % kBlock * (half(step) ? 2 : 4), kBlock, half(step));
        if (scanned(step, r)) {
          float* q = c.row(op_.q, r, op_.index_n_heads * dim);
          for (std::int64_t h = 0; h < op_.index_n_heads; ++h)
            kernels_->turn(q + h * dim, angles, op_.qk_rope_head_dim, interleaved);
        } else {
          float* out = c.row(op_.selected, r, op_.index_topk);
          for (std::int64_t i = 0; i < op_.index_topk; ++i)
            out[i] = std::bit_cast<float>(static_cast<std::int32_t>(i < row.count() ? row.at(i) : -1));
        }
      }
    }
  }

  // The best of the keys in blocks [begin, end) of those that the row reads. False: stopped.
  bool scan(const RunContext& c, std::int64_t r, std::int64_t begin, std::int64_t end, const Own& own, TopPositions& top) const {
    const Step& step = *c.step;
    IndexArgs args{.half = half(step),
                   .width = op_.index_head_dim,
                   .heads = op_.index_n_heads,
                   .q = c.row(op_.q, r, op_.index_n_heads * op_.index_head_dim),
                   .weights = c.row(op_.weights, r, op_.index_n_heads),
                   .scale = op_.scale,
                   .scratch = own.products,
                   .out = own.block};
    const VisibleKeys row = visible(step, r);
    for (std::int64_t n = begin; n < end; ++n) {
      if (n % 16 == 0 && c.stopped()) return false;
      const bool sinks = n < sink_blocks(row);
      const std::int64_t b = sinks ? n : row.begin / kBlock + n - sink_blocks(row), base = b * kBlock;
      const std::int64_t from = std::max(base, sinks ? 0 : row.begin),
                         to = std::min(base + kBlock, sinks ? row.sink_end : row.position + 1);
      args.keys = keys(step, r, b);
      kernels_->index(args);
      top.reserve(to - from);
      for (std::int64_t t = from; t < to; ++t) top.push(ordered(own.block[t - base]), static_cast<std::int32_t>(t));
    }
    top.cut();
    return true;
  }

  void keep(const Shared& shared, std::int64_t list, const TopPositions& top) const {
    shared.counts[list] = static_cast<std::int32_t>(top.count());
    std::copy_n(top.scores(), top.count(), shared.scores + list * op_.index_topk);
    std::copy_n(top.positions(), top.count(), shared.positions + list * op_.index_topk);
  }
  void add(const Shared& shared, std::int64_t list, TopPositions& top) const {
    const std::int32_t *scores = shared.scores + list * op_.index_topk, *positions = shared.positions + list * op_.index_topk;
    for (std::int64_t i = 0; i < shared.counts[list]; ++i) {
      if (i % kBlock == 0) top.reserve(kBlock);
      top.push(scores[i], positions[i]);
    }
  }
  void write(const RunContext& c, std::int64_t r, const TopPositions& top) const {
    float* out = c.row(op_.selected, r, op_.index_topk);
    for (std::int64_t i = 0; i < op_.index_topk; ++i) out[i] = std::bit_cast<float>(top.positions()[i]);
  }

  SparseIndex op_;
  const AttentionKernels* kernels_;
  const float* norm_weight_;  // (index_head_dim)
  const float* norm_bias_;    // (index_head_dim)
  std::int64_t latent_;
  std::string kernel_;
};

}  // namespace

std::unique_ptr<PreparedOp> prepare_sparse_index(const SparseIndex& op, const PrepareContext& context, const KernelTable&,
                                                 Isa isa) {
  return std::make_unique<PreparedSparseIndex>(op, context, isa);
}

}  // namespace dsv31::inline v1::cpu
