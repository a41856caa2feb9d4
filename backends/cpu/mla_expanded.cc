#include "backends/cpu/mla_expanded.h"

#include <algorithm>

namespace dsv31::inline v1::cpu {
namespace {

AttentionShape expanded_shape(const MlaAttention& op, AttentionShape shape) {
  shape.kv_heads = op.num_attention_heads;
  shape.group = 1;
  shape.k_width = op.qk_nope_head_dim + op.qk_rope_head_dim;
  shape.v_width = op.v_head_dim;
  return shape;
}

}  // namespace

MlaExpanded::MlaExpanded(const MlaAttention& op, const AttentionShape& latent, const OpContext& context)
    : op_(op),
      runner_(expanded_shape(op, latent), attention_kernels(context.isa)),
      k_b_(bind(context, op.k_b, true)),
      v_b_(bind(context, op.v_b, true)),
      k_format_(context.kernels.format(k_b_.w.desc.type)) {}

MlaExpanded::Place MlaExpanded::place(Area& area, std::int64_t rows) const {
  const AttentionShape& shape = runner_.shape();
  rows = std::min(rows, kExpandRows);
  Place p;
  p.tile = area.take<std::byte>(static_cast<std::int64_t>(runner_.scratch_bytes()));
  p.q = area.take<float>(rows * q_stride());
  p.parts = area.take<float>(rows * runner_.slot());
  p.w = area.take<float>(k_b_.strips() * op_.qk_nope_head_dim * kStrip);
  p.turned = area.take<float>((op_.kv_lora_rank + op_.qk_rope_head_dim) * kBlock);
  p.keys = area.take<float>(kChunk * shape.k_width);
  p.values = area.take<float>(kChunk * row_stride(shape.v_width));
  p.latent = place_activations(area, Form::f32, kBlock, op_.kv_lora_rank);
  p.kernel = area.take<std::byte>(static_cast<std::int64_t>(v_b_.scratch_bytes()));
  return p;
}

void MlaExpanded::run(const RunContext& c, const SequenceRows& s, std::int64_t head, std::int64_t first, std::int64_t m,
                      const Place& p) const {
  const std::int64_t slot = runner_.slot(), last = s.position + first + m - 1;
  for (std::int64_t strip = 0; strip < k_b_.strips(); ++strip)
    k_format_->decode_strip(k_b_.w, head, strip, 0, op_.qk_nope_head_dim, p.w + strip * op_.qk_nope_head_dim * kStrip);
  const ExpandedChunk expanded{.keys = p.keys, .values = p.values};
  const Partials list = runner_.partials(s.window, s.position + first, last);
  const std::int64_t from = runner_.visible(s.window, s.position + first).begin;  // the first key behind the sinks that is seen
  for (std::int64_t number = 0; number < list.count; ++number) {
    const bool sinks = number < list.sinks;
    const std::int64_t base = list.chunk(number) * kChunkBlocks, end = sinks ? s.window.sinks : last + 1;
    for (std::int64_t b = std::max(base, sinks ? 0 : from / kBlock); b < base + kChunkBlocks && b * kBlock < end; ++b) {
      if (c.stopped()) return;
      expand(c.step->cache, s, head, b, p);
    }
    for (std::int64_t i = 0; i < m; i += kTile) {
      if (c.stopped()) return;
      const Tile tile{
          .sequence = &s, .first = first + i, .m = std::min(kTile, m - i), .q = p.q + i * q_stride(), .q_stride = q_stride()};
      runner_.advance(c.step->cache, tile, list, number, p.parts + i * slot, slot, p.tile, &expanded);
    }
  }
  const std::int64_t dim = op_.v_head_dim;
  for (std::int64_t i = 0; i < m; ++i)
    runner_.kernels().finish(p.parts + i * slot, dim,
                             c.row(op_.out, s.first_row + first + i, op_.num_attention_heads * dim) + head * dim);
}

// k_t = [W_UK c_t | k_pe_t], transposed; v_t = W_UV c_t
void MlaExpanded::expand(const CacheView& cache, const SequenceRows& s, std::int64_t head, std::int64_t block,
                         const Place& p) const {
  const AttentionKernels& kernels = runner_.kernels();
  const std::int64_t rank = op_.kv_lora_rank, nope = op_.qk_nope_head_dim, latent = runner_.shape().latent;
  const std::int64_t k_width = runner_.shape().k_width, ld = row_stride(op_.v_head_dim), at = block % kChunkBlocks;
  const std::byte* src = cache.block(op_.layer, s.blocks[block]);
  const bool half = cache.type == DType::f16;

  kernels.turn_block(src, latent, latent, half, p.turned);
  float* keys = p.keys + at * k_width * kBlock;
  for (std::int64_t strip = 0; strip < k_b_.strips(); ++strip)
    kernels.product(nope, std::min(kStrip, rank - strip * kStrip), p.w + strip * nope * kStrip, kStrip,
                    p.turned + strip * kStrip * kBlock, keys, strip == 0);
  std::copy_n(p.turned + rank * kBlock, op_.qk_rope_head_dim * kBlock, keys + nope * kBlock);

  kernels.widen_block(src, latent, rank, half, const_cast<float*>(p.latent.f32), p.latent.f32_stride);
  for (std::int64_t strip = 0; strip < v_b_.strips(); strip += kPanelStrips)
    v_b_.kernel->run({.w = &v_b_.w,
                      .index = head,
                      .strip_begin = strip,
                      .strip_end = std::min(strip + kPanelStrips, v_b_.strips()),
                      .x = &p.latent,
                      .m = kBlock,
                      .out = p.values + at * kBlock * ld + strip * kStrip,
                      .ld = ld,
                      .scratch = p.kernel});
}

}  // namespace dsv31::inline v1::cpu
