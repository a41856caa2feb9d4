// Latent attention over selected keys (DeepSeek-V3.2-Exp, section 2.1), absorbed. The partial softmaxes are those of
// mla_attention.cc with the list of a row in the place of the positions: one for 256 entries, merged in ascending order. A row
// that sees no more than index_topk keys lists them all, and gets the bits of dense attention.
//
// Every row has keys of its own, so a tile is the heads of one row. Runs of 64 listed positions that are a whole cache block are
// read where they stand; others are gathered. Rows go in groups of 32: absorb (a head's projection once for all rows of the
// group) | partials of tiles | merge and v_b, with the next group's absorb.
#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "backends/cpu/attention.h"
#include "backends/cpu/attention_tiles.h"
#include "backends/cpu/op.h"

namespace dsv31::inline v1::cpu {
namespace {

constexpr std::int64_t kGroupRows = 32;     // rows that share a pass over the projections
constexpr std::int64_t kAbsorbStrips = 16;  // of one head, in a work item
constexpr std::int64_t kCacheRows = 4;      // in a work item
constexpr std::int64_t kEnoughTiles = 64;   // from here on tiles alone keep the workers busy
constexpr std::int64_t kSlotFloats = std::int64_t{2} << 20;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

class PreparedSparseAttention final : public PreparedOp {
 public:
  PreparedSparseAttention(const MlaAttention& op, const OpContext& context)
      : op_(op),
        rows_(&row_kernels(context.isa)),
        kernels_(&attention_kernels(context.isa)),
        kv_norm_(vector_of(context.prepare, op.kv_norm.weight)),
        k_b_(bind(context, op.k_b)),
        v_b_(bind(context, op.v_b)),
        index_topk_(context.prepare.graph->values[static_cast<std::size_t>(op.selected)].width),
        block_width_(context.prepare.graph->caches[static_cast<std::size_t>(op.layer)].latent),
        kernel_(std::string(simd::isa_name(context.isa)) + " sparse " + k_b_.kernel->name + " " + v_b_.kernel->name) {}

  std::size_t scratch_bytes(std::int64_t max_rows, int max_workers) const override {
    Area shared, own;
    place_shared(shared, max_rows);
    place_own(own);
    return shared.used() + own.used() * static_cast<std::size_t>(max_workers);
  }

  int phases(const Step& step) const override { return 1 + 2 * static_cast<int>(ceil_div(step.rows(), kGroupRows)); }

  void run(int phase, const RunContext& c) const override {
    const std::int64_t n = c.step->rows();
    Area shared_area(c.scratch), own_size;
    const Shared shared = place_shared(shared_area, n);
    place_own(own_size);
    Area own_area(c.scratch + shared_area.used() + own_size.used() * static_cast<std::size_t>(c.worker));
    const Own own = place_own(own_area);
    const std::int64_t number = (phase - 1) / 2;
    if (phase == 0) {
      const std::int64_t items = ceil_div(n, kCacheRows);
      std::int64_t item = c.take(1);
      for (; item < items; item = c.take(1)) {
        if (c.stopped()) return;
        for (std::int64_t r = item * kCacheRows; r < std::min(n, (item + 1) * kCacheRows); ++r) cache_row(c, r);
      }
      return absorb(c, group(n, 0), item, items, shared, own);
    }
    if (phase % 2 == 1) return attend(c, group(n, number), shared, own);
    const std::int64_t next = merge(c, group(n, number), shared, own);
    if ((number + 1) * kGroupRows < n) absorb(c, group(n, number + 1), next, heads(), shared, own);
  }

  std::string kernel() const override { return kernel_; }

 private:
  struct Group {
    std::int64_t first = 0, rows = 0;  // of the step
  };
  struct Shared {
    float* qa;     // (group rows, num_attention_heads, q_stride()): [k_b_h q_nope_h | q_pe_h]
    float* slots;  // (group rows, num_attention_heads, chunks, slot())
  };
  struct Own {
    float *scores, *keys, *values;  // of the chunk kernel
    float* fresh;                   // (kTile, slot())
    std::byte* gathered;            // (kChunk, block_width_) of either element type
    float* z;                       // (kv_lora_rank)
    Activations nope, latent;       // (kGroupRows, qk_nope_head_dim), (kGroupRows, kv_lora_rank)
    float* panel;                   // (kGroupRows, a panel)
    std::byte* kernel;
  };

  std::int64_t heads() const { return op_.num_attention_heads; }
  std::int64_t rank() const { return op_.kv_lora_rank; }
  std::int64_t width() const { return op_.kv_lora_rank + op_.qk_rope_head_dim; }
  std::int64_t q_stride() const { return row_stride(width()); }
  std::int64_t slot() const { return part_floats(rank()); }
  std::int64_t tiles() const { return ceil_div(heads(), kTile); }
  static Group group(std::int64_t n, std::int64_t number) {
    return {number * kGroupRows, std::min(kGroupRows, n - number * kGroupRows)};
  }
  std::int64_t listed(const Step& step, std::int64_t r) const {
    return std::min(index_topk_, visible_keys(sequence(step, r).window, 0, step.positions[static_cast<std::size_t>(r)]).count());
  }
  // Slots of a row and head: 1, or one a chunk where tiles alone are too few and the slots fit.
  std::int64_t chunks(const Step& step, const Group& g) const {
    std::int64_t most = 1;
    for (std::int64_t r = g.first; r < g.first + g.rows; ++r) most = std::max(most, ceil_div(listed(step, r), kChunk));
    return g.rows * tiles() >= kEnoughTiles || g.rows * heads() * most * slot() > kSlotFloats ? 1 : most;
  }

  Shared place_shared(Area& area, std::int64_t rows) const {
    rows = std::min(rows, kGroupRows);
    Shared s{};
    s.qa = area.take<float>(rows * heads() * q_stride());
    const std::int64_t one = rows * heads() * slot();
    s.slots = area.take<float>(std::max(one, std::min(kSlotFloats, one * ceil_div(index_topk_, kChunk))));
    return s;
  }
  Own place_own(Area& area) const {
    Own o{};
    o.scores = area.take<float>(kTile * kChunk);
    o.keys = area.take<float>(width() * kBlock);
    o.values = area.take<float>(kBlock * row_stride(rank()));
    o.fresh = area.take<float>(kTile * slot());
    o.gathered = area.take<std::byte>(kChunk * block_width_ * 4);
    o.z = area.take<float>(row_stride(rank()));
    o.nope = place_activations(area, k_b_.kernel->form, kGroupRows, op_.qk_nope_head_dim);
    o.latent = place_activations(area, v_b_.kernel->form, kGroupRows, rank());
    o.panel = area.take<float>(kGroupRows * kPanelStrips * kStrip);
    o.kernel = area.take<std::byte>(static_cast<std::int64_t>(std::max(k_b_.scratch_bytes(), v_b_.scratch_bytes())));
    return o;
  }

  const float* query(const RunContext& c, std::int64_t row, std::int64_t head) const {  // [nope | pe]
    const std::int64_t dim = op_.qk_nope_head_dim + op_.qk_rope_head_dim;
    return c.row(op_.q, row, heads() * dim) + head * dim;
  }
  static const SequenceRows& sequence(const Step& step, std::int64_t r) {
    return step.sequences[static_cast<std::size_t>(step.sequence_of_row[static_cast<std::size_t>(r)])];
  }
  void turn(const RunContext& c, std::int64_t row, float* x) const {
    const float* angles = c.row(op_.angles, row, op_.qk_rope_head_dim);
    kernels_->turn(x, angles, op_.qk_rope_head_dim, op_.pairing == Pairing::interleaved);
  }

  // Turns [latent | k_pe] into what the cache holds and writes it there.
  void cache_row(const RunContext& c, std::int64_t r) const {
    const Step& step = *c.step;
    float* x = c.row(op_.c, r, width());
    if (kv_norm_ != nullptr) rows_->rms_norm(x, kv_norm_, op_.kv_norm.eps, rank(), x);
    turn(c, r, x + rank());
    const std::int64_t position = step.positions[static_cast<std::size_t>(r)];
    const bool half = step.cache.type == DType::f16;
    std::byte* block = step.cache.block(op_.layer, sequence(step, r).blocks[position / kBlock]);
    kernels_->cache(x, width(), block + position % kBlock * block_width_ * (half ? 2 : 4), 1, half);
  }

  // qa of one head, some strips, all rows of the group. The phase's items from `before` on are these; `taken` is the next one.
  void absorb(const RunContext& c, const Group& g, std::int64_t taken, std::int64_t before, const Shared& shared,
              const Own& own) const {
    const std::int64_t strips = k_b_.strips(), parts = ceil_div(strips, kAbsorbStrips), ld = heads() * q_stride();
    for (std::int64_t item = taken - before; item < heads() * parts; item = c.take(1) - before) {
      if (c.stopped()) return;
      const std::int64_t head = item / parts, begin = item % parts * kAbsorbStrips, end = std::min(strips, begin + kAbsorbStrips);
      float* qa = shared.qa + head * q_stride();
      for (std::int64_t i = 0; i < g.rows; ++i)
        fill_columns(*rows_, own.nope, i, 0, query(c, g.first + i, head), op_.qk_nope_head_dim);
      for (std::int64_t s = begin; s < end; s += kPanelStrips)
        project(k_b_, head, s, end, own.nope, g.rows, qa + s * kStrip, ld, own.kernel);
      if (end < strips) continue;  // whole strips are written: what the last one has too much lies under q_pe
      for (std::int64_t i = 0; i < g.rows; ++i) {
        float* pe = qa + i * ld + rank();
        std::copy_n(query(c, g.first + i, head) + op_.qk_nope_head_dim, op_.qk_rope_head_dim, pe);
        turn(c, g.first + i, pe);
      }
    }
  }

  void attend(const RunContext& c, const Group& g, const Shared& shared, const Own& own) const {
    const std::int64_t slots = chunks(*c.step, g);
    for (std::int64_t item = c.take(1); item < g.rows * tiles() * slots; item = c.take(1)) {
      if (c.stopped()) return;
      const std::int64_t i = item / slots / tiles(), r = g.first + i, head = item / slots % tiles() * kTile;
      const std::int64_t m = std::min(kTile, heads() - head), all = ceil_div(listed(*c.step, r), kChunk);
      const float* q = shared.qa + (i * heads() + head) * q_stride();
      float* part = shared.slots + (i * heads() + head) * slots * slot();
      if (slots > 1) {
        const std::int64_t chunk = item % slots;
        if (chunk < all) partial(c, r, m, q, chunk, part + chunk * slot(), slots * slot(), own);
        continue;
      }
      for (std::int64_t chunk = 0; chunk < all && !c.stopped(); ++chunk) {
        partial(c, r, m, q, chunk, chunk == 0 ? part : own.fresh, slot(), own);
        for (std::int64_t h = 0; h < m && chunk > 0; ++h) kernels_->merge(part + h * slot(), own.fresh + h * slot(), rank());
      }
    }
  }

  // Partials of m heads over one chunk of the row's list.
  void partial(const RunContext& c, std::int64_t r, std::int64_t m, const float* q, std::int64_t chunk, float* part,
               std::int64_t part_stride, const Own& own) const {
    const Step& step = *c.step;
    const float* list = c.row(op_.selected, r, index_topk_) + chunk * kChunk;
    const std::int64_t n = std::min(kChunk, listed(step, r) - chunk * kChunk);
    const bool half = step.cache.type == DType::f16;
    const std::size_t row_bytes = static_cast<std::size_t>(block_width_) * (half ? 2 : 4);
    const auto at = [&](std::int64_t i) { return std::int64_t{std::bit_cast<std::int32_t>(list[i])}; };
    const auto slot_of = [&](std::int64_t position) -> const std::byte* {
      return step.cache.block(op_.layer, sequence(step, r).blocks[position / kBlock]) +
             static_cast<std::size_t>(position % kBlock) * row_bytes;
    };
    ChunkArgs args;
    for (std::int64_t b = 0; b * kBlock < n; ++b) {
      const std::int64_t first = b * kBlock, last = std::min(n, first + kBlock) - 1;
      if (at(first) % kBlock == 0 && at(last) - at(first) == last - first) {
        args.keys[b] = args.values[b] = slot_of(at(first));
        continue;
      }
      std::byte* block = own.gathered + static_cast<std::size_t>(first) * row_bytes;
      for (std::int64_t i = first; i <= last; ++i)
        std::memcpy(block + static_cast<std::size_t>(i - first) * row_bytes, slot_of(at(i)), row_bytes);
      args.keys[b] = args.values[b] = block;
    }
    std::int32_t begin[kTile], end[kTile];
    std::fill_n(begin, m, 0);
    std::fill_n(end, m, static_cast<std::int32_t>(n));
    args.half = half;
    args.latent = true;
    args.k_width = width();
    args.v_width = rank();
    args.value_stride = block_width_;
    args.scale = op_.scale;
    args.m = m;
    args.q = q;
    args.q_stride = q_stride();
    args.begin = begin;
    args.end = end;
    args.part = part;
    args.part_stride = part_stride;
    args.scores = own.scores;
    args.key_scratch = own.keys;
    args.value_scratch = own.values;
    kernels_->chunk(args);
  }

  // out_h = v_b_h z_h, with z_h of the merged partials. An item is a head, for all rows of the group. Returns the first number
  // taken past these items.
  std::int64_t merge(const RunContext& c, const Group& g, const Shared& shared, const Own& own) const {
    constexpr std::int64_t ld = kPanelStrips * kStrip;
    const std::int64_t slots = chunks(*c.step, g), dim = op_.v_head_dim, strips = v_b_.strips();
    std::int64_t head = c.take(1);
    for (; head < heads() && !c.stopped(); head = c.take(1)) {
      for (std::int64_t i = 0; i < g.rows; ++i) {
        float* part = shared.slots + (i * heads() + head) * slots * slot();
        const std::int64_t all = ceil_div(listed(*c.step, g.first + i), kChunk);
        for (std::int64_t chunk = 1; chunk < all && slots > 1; ++chunk) kernels_->merge(part, part + chunk * slot(), rank());
        kernels_->finish(part, rank(), own.z);
        fill_columns(*rows_, own.latent, i, 0, own.z, rank());
      }
      for (std::int64_t s = 0; s < strips; s += kPanelStrips) {
        project(v_b_, head, s, strips, own.latent, g.rows, own.panel, ld, own.kernel);
        const std::int64_t n = width_of(dim, s, std::min(s + kPanelStrips, strips));
        for (std::int64_t i = 0; i < g.rows; ++i)
          std::copy_n(own.panel + i * ld, n, c.row(op_.out, g.first + i, heads() * dim) + head * dim + s * kStrip);
      }
    }
    return head;
  }

  MlaAttention op_;
  const RowKernels* rows_;
  const AttentionKernels* kernels_;
  const float* kv_norm_;  // (kv_lora_rank) or null
  Matrix k_b_;            // (num_attention_heads, kv_lora_rank, qk_nope_head_dim)
  Matrix v_b_;            // (num_attention_heads, v_head_dim, kv_lora_rank)
  std::int64_t index_topk_, block_width_;
  std::string kernel_;
};

}  // namespace

std::unique_ptr<PreparedOp> prepare_sparse_attention(const MlaAttention& op, const PrepareContext& context,
                                                     const KernelTable& kernels, Isa isa) {
  return std::make_unique<PreparedSparseAttention>(op, OpContext{context, kernels, isa});
}

}  // namespace dsv31::inline v1::cpu
