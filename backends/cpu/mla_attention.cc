// Multi-head latent attention (DeepSeek-V2 paper, section 2.1), absorbed: all heads attend to the one cached vector [latent |
// k_pe] with queries [k_b_h q_nope_h | q_pe_h] of the same width, and v_b_h takes the weighted latent to the head's values.
//
// Sequences with many rows (prefill) are cut into tiles of rows x one head; an item does all of it, so that the head's two
// projections are read once for 48 rows and nothing but the tile is kept. The other rows (decode) go in groups of up to 32 of any
// sequences: absorb (the projection of a head once for all rows of the group) | partials of tiles of heads | merge and v_b.
// With relaxed numerics long sequences take expanded keys and values instead (mla_expanded.h).
// Phases: cache rows and absorb of the first group | prefill items and partials | merge and v_b, then those of further groups.
#include <algorithm>
#include <optional>
#include <string>

#include "backends/cpu/attention.h"
#include "backends/cpu/attention_tiles.h"
#include "backends/cpu/mla_expanded.h"
#include "backends/cpu/op.h"

namespace dsv31::inline v1::cpu {
namespace {

constexpr std::int64_t kPrefillRows = 16;   // a sequence with as many rows in a step is prefill
constexpr std::int64_t kGroupRows = 32;     // decode rows that share a pass over the projections
constexpr std::int64_t kAbsorbStrips = 16;  // of one head, in a work item
constexpr std::int64_t kCacheRows = 4;      // in a work item
constexpr std::size_t kSlotBudget = std::size_t{8} << 20;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

class PreparedMlaAttention final : public PreparedOp {
 public:
  PreparedMlaAttention(const MlaAttention& op, const AttentionShape& shape, const OpContext& context)
      : op_(op),
        rows_(&row_kernels(context.isa)),
        decode_(shape, attention_kernels(context.isa)),
        prefill_(by_head(shape), attention_kernels(context.isa)),
        kv_norm_(vector_of(context.prepare, op.kv_norm.weight)),
        k_b_(bind(context, op.k_b)),
        v_b_(bind(context, op.v_b)),
        kernel_(std::string(simd::isa_name(context.isa)) + " absorbed " + k_b_.kernel->name + " " + v_b_.kernel->name) {
    if (!context.prepare.numerics.relaxed) return;
    expanded_.emplace(op, shape, context);
    kernel_ += " or expanded";
  }

  std::size_t scratch_bytes(std::int64_t max_rows, int max_workers) const override {
    Area own, shared;
    place_own(own, max_rows);
    place_shared(shared, max_rows);
    return shared.used() + own.used() * static_cast<std::size_t>(max_workers);
  }

  int phases(const Step& step) const override {
    int n = 0;
    for (Group g = next_group(step, 0); g.rows > 0; g = next_group(step, g.end))
      n += 1 + 2 * static_cast<int>(decode_.divide(g.selection, kSlotBudget).waves);
    return std::max(n, 2);
  }

  void run(int phase, const RunContext& c) const override {
    const Step& step = *c.step;
    Area shared_area(c.scratch);
    const Shared shared = place_shared(shared_area, step.rows());
    Area own_area(c.scratch + shared_area.used() + own_bytes(step.rows()) * static_cast<std::size_t>(c.worker));
    const Own own = place_own(own_area, step.rows());
    Group g = next_group(step, 0);
    if (phase == 0) return begin(c, g, shared, own);
    const bool prefill = phase == 1;
    for (; g.rows > 0; g = next_group(step, g.end)) {
      const Division d = decode_.divide(g.selection, kSlotBudget);
      const int phases = 1 + 2 * static_cast<int>(d.waves);
      if (phase >= phases) {
        phase -= phases;
        continue;
      }
      if (phase == 0) return absorb(c, g, c.take(1), 0, shared, own);
      const std::int64_t wave = (phase - 1) / 2;
      return phase % 2 == 1 ? attend(c, prefill, g, d, wave, shared, own) : merge(c, g, d, wave, shared, own);
    }
    if (prefill) attend(c, true, {}, {}, 0, shared, own);
  }

  std::string kernel() const override { return kernel_; }

 private:
  struct Group {
    Selection selection;
    std::int64_t rows = 0;
    std::size_t end = 0;  // the sequence after the last one
  };
  struct Shared {
    float* qa;     // (group rows, num_attention_heads, q_stride()): [k_b_h q_nope_h | q_pe_h]
    float* slots;  // (group rows, num_attention_heads, chunks + 1, slot)
  };
  struct Own {
    std::byte* tile;           // of the runners
    float* qa;                 // (kTile, q_stride())
    float* parts;              // (kTile, slot)
    float* z;                  // (kv_lora_rank)
    Activations nope, latent;  // (kTile, qk_nope_head_dim), (kTile, kv_lora_rank)
    float* panel;              // (kTile, a panel)
    std::byte* kernel;
    MlaExpanded::Place expanded;
  };

  static AttentionShape by_head(AttentionShape shape) {
    std::swap(shape.kv_heads, shape.group);
    return shape;
  }

  std::int64_t heads() const { return op_.num_attention_heads; }
  std::int64_t rank() const { return op_.kv_lora_rank; }
  std::int64_t width() const { return op_.kv_lora_rank + op_.qk_rope_head_dim; }
  std::int64_t q_stride() const { return row_stride(width()); }
  std::int64_t slot() const { return decode_.slot(); }

  Shared place_shared(Area& area, std::int64_t rows) const {
    rows = std::min(rows, kGroupRows);
    Shared s;
    s.qa = area.take<float>(rows * heads() * q_stride());
    s.slots = reinterpret_cast<float*>(area.take<std::byte>(static_cast<std::int64_t>(decode_.slot_bytes(rows, kSlotBudget))));
    return s;
  }

  Own place_own(Area& area, std::int64_t rows) const {
    Own o{};
    o.tile = area.take<std::byte>(static_cast<std::int64_t>(decode_.scratch_bytes()));
    o.qa = area.take<float>(kTile * q_stride());
    o.parts = area.take<float>(kTile * slot());
    o.z = area.take<float>(row_stride(rank()));
    o.nope = place_activations(area, k_b_.kernel->form, kTile, op_.qk_nope_head_dim);
    o.latent = place_activations(area, v_b_.kernel->form, kTile, rank());
    o.panel = area.take<float>(kTile * kPanelStrips * kStrip);
    o.kernel = area.take<std::byte>(static_cast<std::int64_t>(std::max(k_b_.scratch_bytes(), v_b_.scratch_bytes())));
    if (expanded_ && rows >= kExpandFrom) o.expanded = expanded_->place(area, rows);
    return o;
  }

  std::size_t own_bytes(std::int64_t rows) const {
    Area area;
    place_own(area, rows);
    return area.used();
  }

  // The next sequences that decode, as many as fit a group; rows = 0: none is left.
  Group next_group(const Step& step, std::size_t from) const {
    Group g;
    g.end = from;
    for (; g.end < step.sequences.size(); ++g.end) {
      const SequenceRows& s = step.sequences[g.end];
      if (s.rows >= kPrefillRows) continue;
      if (g.rows + s.rows > kGroupRows) break;
      g.rows += s.rows;
    }
    g.selection = {.sequences = step.sequences.subspan(from, g.end - from), .below = kPrefillRows};
    return g;
  }

  // visit(row of the group, row of the step, its sequence, its position)
  template <class Visit>
  static void each_row(const Group& g, Visit visit) {
    std::int64_t n = 0;
    for (const SequenceRows& s : g.selection.sequences)
      if (g.selection.has(s))
        for (std::int64_t r = 0; r < s.rows; ++r) visit(n++, s.first_row + r, s, s.position + r);
  }

  const float* query(const RunContext& c, std::int64_t row, std::int64_t head) const {  // [nope | pe]
    const std::int64_t dim = op_.qk_nope_head_dim + op_.qk_rope_head_dim;
    return c.row(op_.q, row, heads() * dim) + head * dim;
  }

  // Turns [latent | k_pe] into what the cache holds and writes it there.
  void cache_row(const RunContext& c, std::int64_t r) const {
    const Step& step = *c.step;
    float* x = c.row(op_.c, r, width());
    if (kv_norm_ != nullptr) rows_->rms_norm(x, kv_norm_, op_.kv_norm.eps, rank(), x);
    turn(c, r, x + rank());
    const std::int64_t position = step.positions[static_cast<std::size_t>(r)];
    const SequenceRows& s = step.sequences[static_cast<std::size_t>(step.sequence_of_row[static_cast<std::size_t>(r)])];
    const bool half = step.cache.type == DType::f16;
    std::byte* block = step.cache.block(op_.layer, s.blocks[position / kBlock]);
    decode_.kernels().cache(x, width(), block + position % kBlock * width() * (half ? 2 : 4), 1, half);
  }

  void turn(const RunContext& c, std::int64_t row, float* x) const {
    if (op_.qk_rope_head_dim == 0) return;
    const float* angles = c.row(op_.angles, row, op_.qk_rope_head_dim);
    decode_.kernels().turn(x, angles, op_.qk_rope_head_dim, op_.pairing == Pairing::interleaved);
  }

  // q_pe of a head, turned, behind its absorbed part
  void append_pe(const RunContext& c, std::int64_t row, std::int64_t head, float* qa) const {
    std::copy_n(query(c, row, head) + op_.qk_nope_head_dim, op_.qk_rope_head_dim, qa + rank());
    turn(c, row, qa + rank());
  }

  void begin(const RunContext& c, const Group& g, const Shared& shared, const Own& own) const {
    const std::int64_t n = c.step->rows(), items = ceil_div(n, kCacheRows);
    std::int64_t item = c.take(1);
    for (; item < items; item = c.take(1)) {
      if (c.stopped()) return;
      for (std::int64_t r = item * kCacheRows; r < std::min(n, (item + 1) * kCacheRows); ++r) cache_row(c, r);
    }
    if (g.rows > 0) absorb(c, g, item, items, shared, own);
  }

  // qa of one head, some strips, all rows of the group. The phase's items from `before` on are these; `taken` is the next one.
  void absorb(const RunContext& c, const Group& g, std::int64_t taken, std::int64_t before, const Shared& shared,
              const Own& own) const {
    const std::int64_t strips = k_b_.strips(), parts = ceil_div(strips, kAbsorbStrips), ld = heads() * q_stride();
    for (std::int64_t item = taken - before; item < heads() * parts; item = c.take(1) - before) {
      if (c.stopped()) return;
      const std::int64_t head = item / parts, begin = item % parts * kAbsorbStrips, end = std::min(strips, begin + kAbsorbStrips);
      float* qa = shared.qa + head * q_stride();
      each_row(g, [&](std::int64_t i, std::int64_t row, const SequenceRows&, std::int64_t) {
        fill_columns(*rows_, own.nope, i, 0, query(c, row, head), op_.qk_nope_head_dim);
      });
      for (std::int64_t s = begin; s < end; s += kPanelStrips)
        project(k_b_, head, s, end, own.nope, g.rows, qa + s * kStrip, ld, own.kernel);
      if (end < strips) continue;  // whole strips are written: what the last one has too much lies under q_pe
      each_row(
          g, [&](std::int64_t i, std::int64_t row, const SequenceRows&, std::int64_t) { append_pe(c, row, head, qa + i * ld); });
    }
  }

  void attend(const RunContext& c, bool prefill, const Group& g, const Division& d, std::int64_t wave, const Shared& shared,
              const Own& own) const {
    std::int64_t expanded_items = 0, prefill_items = 0;
    const Selection tiles{.sequences = c.step->sequences, .from = kPrefillRows, .below = expanded_ ? kExpandFrom : INT64_MAX};
    if (prefill)
      for (const SequenceRows& s : tiles.sequences) {
        if (tiles.has(s)) prefill_items += ceil_div(s.rows, kTile) * heads();
        if (s.rows >= tiles.below) expanded_items += ceil_div(s.rows, kExpandRows) * heads();
      }
    TileItems prefills(prefill_, tiles, {}, 0), partials(decode_, g.selection, d, wave);
    TileItems::Item item;
    while (!c.stopped()) {
      std::int64_t number = c.take(1);
      if (number < expanded_items) {
        expand(c, number, own);
        continue;
      }
      number -= expanded_items;
      if (number < prefill_items) {
        prefills.find(number, item);
        prefill_tile(c, item, own);
        continue;
      }
      if (!partials.find(number - prefill_items, item)) return;
      const Tile tile{.sequence = item.sequence,
                      .group = heads(),
                      .first = item.first,
                      .m = item.m,
                      .q = shared.qa + (item.rows_before * heads() + item.first) * q_stride(),
                      .q_stride = q_stride()};
      const std::int64_t stride = (d.chunks + 1) * slot();
      float* row = shared.slots + (item.rows_before * heads() + item.first) * stride;
      if (d.split) {
        const std::int64_t at = item.number - wave * d.chunks;
        decode_.partial(c.step->cache, tile, decode_.partials(*item.sequence), item.number, row + at * slot(), stride, own.tile);
      } else {
        decode_.stream(c, tile, row, stride, own.tile);
      }
    }
  }

  void expand(const RunContext& c, std::int64_t number, const Own& own) const {
    for (const SequenceRows& s : c.step->sequences) {
      if (s.rows < kExpandFrom) continue;
      const std::int64_t items = ceil_div(s.rows, kExpandRows) * heads();
      if (number >= items) {
        number -= items;
        continue;
      }
      const std::int64_t head = number % heads(), first = number / heads() * kExpandRows,
                         m = std::min(kExpandRows, s.rows - first);
      const std::int64_t dim = op_.qk_nope_head_dim + op_.qk_rope_head_dim, stride = expanded_->q_stride();
      for (std::int64_t i = 0; i < m; ++i) {
        const std::int64_t row = s.first_row + first + i;
        std::copy_n(query(c, row, head), dim, own.expanded.q + i * stride);
        turn(c, row, own.expanded.q + i * stride + op_.qk_nope_head_dim);
      }
      return expanded_->run(c, s, head, first, m, own.expanded);
    }
  }

  void prefill_tile(const RunContext& c, const TileItems::Item& item, const Own& own) const {
    const std::int64_t head = item.kv_head, row = item.sequence->first_row + item.first;
    for (std::int64_t i = 0; i < item.m; ++i) fill_columns(*rows_, own.nope, i, 0, query(c, row + i, head), op_.qk_nope_head_dim);
    for (std::int64_t s = 0; s < k_b_.strips(); s += kPanelStrips)
      project(k_b_, head, s, k_b_.strips(), own.nope, item.m, own.qa + s * kStrip, q_stride(), own.kernel);
    for (std::int64_t i = 0; i < item.m; ++i) append_pe(c, row + i, head, own.qa + i * q_stride());
    const Tile tile{.sequence = item.sequence, .first = item.first, .m = item.m, .q = own.qa, .q_stride = q_stride()};
    if (!prefill_.stream(c, tile, own.parts, slot(), own.tile)) return;
    for (std::int64_t i = 0; i < item.m; ++i) take_latent(own, i, own.parts + i * slot());
    values(c, head, item.m, own, [&](std::int64_t i) { return row + i; });
  }

  // Merges this wave's slots; after the last wave out_h = v_b_h z_h. An item is a head, for all rows of the group.
  void merge(const RunContext& c, const Group& g, const Division& d, std::int64_t wave, const Shared& shared,
             const Own& own) const {
    const bool last = wave == d.waves - 1;
    for (std::int64_t head = c.take(1); head < heads() && !c.stopped(); head = c.take(1)) {
      std::int64_t step_row[kGroupRows];
      each_row(g, [&](std::int64_t i, std::int64_t row, const SequenceRows& s, std::int64_t position) {
        float* slots = shared.slots + (i * heads() + head) * (d.chunks + 1) * slot();
        if (d.split) decode_.gather(d, wave, decode_.partials(s), decode_.visible(s.window, position), slots);
        if (last) take_latent(own, i, slots + d.chunks * slot());
        step_row[i] = row;
      });
      if (last) values(c, head, g.rows, own, [&](std::int64_t i) { return step_row[i]; });
    }
  }

  void take_latent(const Own& own, std::int64_t i, const float* part) const {
    decode_.kernels().finish(part, rank(), own.z);
    fill_columns(*rows_, own.latent, i, 0, own.z, rank());
  }

  // out_h = v_b_h z_h for the m rows of own.latent; row_of(i): their rows of the step
  template <class RowOf>
  void values(const RunContext& c, std::int64_t head, std::int64_t m, const Own& own, RowOf row_of) const {
    constexpr std::int64_t ld = kPanelStrips * kStrip;
    const std::int64_t dim = op_.v_head_dim, strips = v_b_.strips();
    for (std::int64_t s = 0; s < strips; s += kPanelStrips) {
      project(v_b_, head, s, strips, own.latent, m, own.panel, ld, own.kernel);
      const std::int64_t n = width_of(dim, s, std::min(s + kPanelStrips, strips));
      for (std::int64_t i = 0; i < m; ++i)
        std::copy_n(own.panel + i * ld, n, c.row(op_.out, row_of(i), heads() * dim) + head * dim + s * kStrip);
    }
  }

  MlaAttention op_;
  const RowKernels* rows_;
  TileRunner decode_, prefill_;  // tiles of heads and rows; tiles of the rows of a head
  const float* kv_norm_;         // (kv_lora_rank) or null
  Matrix k_b_;                   // (num_attention_heads, kv_lora_rank, qk_nope_head_dim)
  Matrix v_b_;                   // (num_attention_heads, v_head_dim, kv_lora_rank)
  std::optional<MlaExpanded> expanded_;
  std::string kernel_;
};

}  // namespace

std::unique_ptr<PreparedOp> prepare_mla_attention(const MlaAttention& op, const PrepareContext& context,
                                                  const KernelTable& kernels, Isa isa) {
  if (op.selected != kNone) return prepare_sparse_attention(op, context, kernels, isa);
  AttentionShape shape;
  shape.layer = op.layer;
  shape.group = op.num_attention_heads;
  shape.k_width = shape.latent = op.kv_lora_rank + op.qk_rope_head_dim;
  shape.v_width = op.kv_lora_rank;
  shape.scale = op.scale;
  shape.max_chunks = (context.graph->context_length + kChunk - 1) / kChunk;
  return std::make_unique<PreparedMlaAttention>(op, shape, OpContext{context, kernels, isa});
}

}  // namespace dsv31::inline v1::cpu
