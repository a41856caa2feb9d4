#include "backends/cpu/attention_tiles.h"

#include <algorithm>

namespace dsv31::inline v1::cpu {
namespace {

constexpr std::int64_t kEnoughTiles = 64;  // from here on tiles alone keep the workers busy

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::size_t floats(std::int64_t count) { return static_cast<std::size_t>(row_stride(count)) * sizeof(float); }

std::int64_t tiles(const AttentionShape& shape, const SequenceRows& s) { return ceil_div(s.rows * shape.group, kTile); }

struct Range {
  std::int64_t begin, end;
};

// Keys of a partial that a row sees; none where begin >= end.
Range keys(const Partials& list, std::int64_t number, const VisibleKeys& row) {
  const std::int64_t base = list.chunk(number) * kChunk;
  const bool sinks = number < list.sinks;
  return {std::max(base, sinks ? row.sink_begin : row.begin), std::min(base + kChunk, sinks ? row.sink_end : row.position + 1)};
}

// The number of a row's first partial.
std::int64_t first_number(const Partials& list, const VisibleKeys& row) {
  return row.sinks() > 0 ? row.sink_begin / kChunk : list.sinks + row.begin / kChunk - list.first;
}

}  // namespace

std::size_t TileRunner::scratch_bytes() const {
  return floats(kTile * kChunk) + floats(shape_.k_width * kBlock) + floats(kBlock * row_stride(shape_.v_width)) +
         floats(kTile * slot());
}

std::size_t TileRunner::slot_bytes(std::int64_t rows, std::size_t budget) const {
  const std::size_t one = static_cast<std::size_t>(rows * shape_.heads()) * floats(slot());
  return std::max(one, std::min(budget, one * static_cast<std::size_t>(shape_.max_chunks + 1)));
}

Partials TileRunner::partials(const AttentionWindow& window, std::int64_t from, std::int64_t to) const {
  Partials p;
  const std::int64_t hides = std::max(from, window.hides_from());  // of the rows with sinks the first sees the most of them
  if (hides <= to && visible(window, hides).sinks() > 0) p.sinks = ceil_div(window.sinks, kChunk);
  p.first = visible(window, from).begin / kChunk;
  p.count = p.sinks + to / kChunk - p.first + 1;
  return p;
}

Division TileRunner::divide(const Selection& selection, std::size_t budget) const {
  std::int64_t items = 0, rows = 0, longest = 1;
  for (const SequenceRows& s : selection.sequences) {
    if (!selection.has(s)) continue;
    items += tiles(shape_, s) * shape_.kv_heads;
    rows += s.rows;
    longest = std::max(longest, partials(s).count);
  }
  Division d;
  if (items >= kEnoughTiles || longest == 1 || rows == 0) return d;
  const std::int64_t slots =
      static_cast<std::int64_t>(budget / (static_cast<std::size_t>(rows * shape_.heads()) * floats(slot())));
  const std::int64_t most = std::min(shape_.max_chunks, slots - 1);
  if (most < 2) return d;
  return {.split = true, .chunks = std::min(most, longest), .waves = ceil_div(longest, most)};
}

void TileRunner::partial(const CacheView& cache, const Tile& tile, const Partials& list, std::int64_t number, float* part,
                         std::int64_t part_stride, std::byte* scratch, const ExpandedChunk* expanded) const {
  const std::int64_t chunk = list.chunk(number), base = chunk * kChunk;
  std::int32_t begin[kTile], end[kTile];
  std::int64_t from = tile.m, to = 0, lowest = kChunk, highest = 0;  // rows that see any are one range: bounds ascend
  for (std::int64_t i = 0; i < tile.m; ++i) {
    const Range seen = keys(list, number, visible(tile.sequence->window, tile.position(i)));
    if (seen.begin >= seen.end) continue;
    const std::int64_t b = seen.begin - base, e = seen.end - base;
    begin[i] = static_cast<std::int32_t>(b);
    end[i] = static_cast<std::int32_t>(e);
    from = std::min(from, i);
    to = i + 1;
    lowest = std::min(lowest, b);
    highest = std::max(highest, e);
  }
  if (from >= to) return;

  ChunkArgs args;
  args.half = expanded == nullptr && cache.type == DType::f16;
  args.latent = expanded == nullptr && shape_.latent > 0;
  args.value_stride = expanded != nullptr ? row_stride(shape_.v_width) : args.latent ? shape_.latent : shape_.v_width;
  const std::int64_t element = args.half ? 2 : 4;
  const std::int32_t* table = shape_.window_table ? tile.sequence->window_blocks : tile.sequence->blocks;
  for (std::int64_t b = lowest / kBlock; b * kBlock < highest; ++b) {
    if (expanded != nullptr) {
      args.keys[b] = reinterpret_cast<const std::byte*>(expanded->keys + b * shape_.k_width * kBlock);
      args.values[b] = reinterpret_cast<const std::byte*>(expanded->values + b * kBlock * args.value_stride);
      continue;
    }
    const std::byte* block = cache.block(shape_.layer, table[chunk * kChunkBlocks + b]);
    if (args.latent) {
      args.keys[b] = args.values[b] = block;
      continue;
    }
    args.keys[b] = block + tile.kv_head * shape_.k_width * kBlock * element;
    args.values[b] = block + (shape_.kv_heads * shape_.k_width + tile.kv_head * shape_.v_width) * kBlock * element;
  }
  args.k_width = shape_.k_width;
  args.v_width = shape_.v_width;
  args.scale = shape_.scale;
  args.softcap = shape_.softcap;
  args.m = to - from;
  args.q = tile.q + from * tile.q_stride;
  args.q_stride = tile.q_stride;
  args.begin = begin + from;
  args.end = end + from;
  args.part = part + from * part_stride;
  args.part_stride = part_stride;
  args.scores = reinterpret_cast<float*>(scratch);
  args.key_scratch = args.scores + kTile * kChunk;
  args.value_scratch = args.key_scratch + row_stride(shape_.k_width * kBlock);
  kernels_->chunk(args);
}

void TileRunner::advance(const CacheView& cache, const Tile& tile, const Partials& list, std::int64_t number, float* part,
                         std::int64_t part_stride, std::byte* scratch, const ExpandedChunk* expanded) const {
  float* fresh = reinterpret_cast<float*>(scratch + scratch_bytes() - floats(kTile * slot()));
  partial(cache, tile, list, number, fresh, slot(), scratch, expanded);
  for (std::int64_t i = 0; i < tile.m; ++i) {
    const VisibleKeys row = visible(tile.sequence->window, tile.position(i));
    const Range seen = keys(list, number, row);
    if (seen.begin >= seen.end) continue;
    if (number == first_number(list, row))
      std::copy_n(fresh + i * slot(), slot(), part + i * part_stride);
    else
      kernels_->merge(part + i * part_stride, fresh + i * slot(), shape_.v_width);
  }
}

bool TileRunner::stream(const RunContext& context, const Tile& tile, float* part, std::int64_t part_stride,
                        std::byte* scratch) const {
  const Partials list = partials(tile.sequence->window, tile.position(0), tile.position(tile.m - 1));
  for (std::int64_t number = 0; number < list.count; ++number) {
    if (context.stopped()) return false;
    advance(context.step->cache, tile, list, number, part, part_stride, scratch);
  }
  return true;
}

void TileRunner::gather(const Division& division, std::int64_t wave, const Partials& list, const VisibleKeys& row,
                        float* slots) const {
  const std::int64_t base = wave * division.chunks, first = first_number(list, row);
  float* running = slots + division.chunks * slot();
  const std::int64_t end = std::min(list.count, base + division.chunks);
  for (std::int64_t number = std::max(first, base); number < end; ++number) {
    const Range seen = keys(list, number, row);
    if (seen.begin >= seen.end) continue;
    const float* fresh = slots + (number - base) * slot();
    if (number == first)
      std::copy_n(fresh, slot(), running);
    else
      kernels_->merge(running, fresh, shape_.v_width);
  }
}

bool TileItems::find(std::int64_t number, Item& item) {
  const AttentionShape& shape = runner_->shape();
  for (; at_ < selection_.sequences.size(); ++at_) {
    const SequenceRows& s = selection_.sequences[at_];
    if (!selection_.has(s)) continue;
    const std::int64_t heads = shape.kv_heads, done = wave_ * division_.chunks;
    const std::int64_t span =
        division_.split ? std::clamp<std::int64_t>(runner_->partials(s).count - done, 0, division_.chunks) : 1;
    const std::int64_t count = tiles(shape, s) * heads * span;
    if (number >= items_before_ + count) {
      items_before_ += count;
      rows_before_ += s.rows;
      continue;
    }
    const std::int64_t n = count - 1 - (number - items_before_);  // the longest tiles, those of the last rows, first
    item.sequence = &s;
    item.rows_before = rows_before_;
    item.number = done + n % span;
    item.kv_head = n / span % heads;
    item.first = n / span / heads * kTile;
    item.m = std::min(kTile, s.rows * shape.group - item.first);
    return true;
  }
  return false;
}

}  // namespace dsv31::inline v1::cpu
