// How attention is cut into work: tiles of query rows that share a kv head, walked over the chunks of 256 keys.
//
// A row's partials cover its visible keys by absolute chunks. Behind a window with sinks the sinks have partials of their own, by
// chunks too, and come first: so a chunk that holds both the end of the sinks and the start of the window is two partials, and
// the hidden keys between take part in nothing. Which partials a row has depends on its position and window alone.
//
// Query row i of a tile is head (first + i) % group of the kv head at row (first + i) / group of the sequence: the heads of a
// group and neighbouring rows read the same keys, so they share each conversion of a block. There are two ways through the
// chunks, with the same bits since both merge the same partials in the same order:
//   stream: one worker walks all chunks of a tile and merges as it goes (prefill, large batches);
//   split:  (tile, chunk) are items; partials go to slots and a second phase merges them (decode of few rows over a long
//   context).
// Where the slots would outgrow their budget, split goes in waves of `chunks` chunks, with a running partial a row in between.
#pragma once

#include <span>

#include "backends/cpu/attention_kernels.h"

namespace dsv31::inline v1::cpu {

struct AttentionShape {
  std::int32_t layer = 0;
  std::int64_t kv_heads = 1, group = 1;  // group: query heads of a kv head
  std::int64_t k_width = 0, v_width = 0;
  std::int64_t latent = 0;  // > 0: blocks are (kBlock, latent), keys and values in one
  std::int64_t window = 0;
  bool window_table = false;  // the layer's blocks are in window_blocks
  float scale = 1, softcap = 0;
  std::int64_t max_chunks = 1;  // that a row can see

  std::int64_t heads() const { return kv_heads * group; }
};

struct Tile {
  const SequenceRows* sequence = nullptr;
  std::int64_t kv_head = 0;
  std::int64_t group = 1;
  std::int64_t first = 0, m = 0;
  const float* q = nullptr;  // (m, q_stride)
  std::int64_t q_stride = 0;

  std::int64_t position(std::int64_t i) const { return sequence->position + (first + i) / group; }
};

// Keys and values of one chunk made of latents, for one head.
struct ExpandedChunk {
  const float* keys = nullptr;    // (kChunkBlocks, k_width, kBlock)
  const float* values = nullptr;  // (kChunk, row_stride(v_width))
};

// Which sequences take part: those with at least `from` and fewer than `below` rows.
struct Selection {
  std::span<const SequenceRows> sequences;
  std::int64_t from = 0, below = INT64_MAX;

  bool has(const SequenceRows& s) const { return s.rows >= from && s.rows < below; }
};

// The partials of neighbouring rows of a sequence, by number, in the order of merging: those of the sinks (chunks 0, 1, ...), if
// one of the rows has any, then those of the chunks `first`, `first` + 1, ...
struct Partials {
  std::int64_t sinks = 0, first = 0;
  std::int64_t count = 0;  // of both

  std::int64_t chunk(std::int64_t number) const { return number < sinks ? number : first + number - sinks; }
};

struct Division {
  bool split = false;
  std::int64_t chunks = 0;  // slots a query row has besides its running partial
  std::int64_t waves = 1;
};

class TileRunner {
 public:
  TileRunner(const AttentionShape& shape, const AttentionKernels& kernels) : shape_(shape), kernels_(&kernels) {}

  const AttentionShape& shape() const { return shape_; }
  const AttentionKernels& kernels() const { return *kernels_; }
  std::int64_t slot() const { return part_floats(shape_.v_width); }

  std::size_t scratch_bytes() const;  // a worker
  // Slots and running partials of at most `rows` rows.
  std::size_t slot_bytes(std::int64_t rows, std::size_t budget) const;
  Division divide(const Selection& selection, std::size_t budget) const;

  // What rows at positions [from, to] take part in.
  Partials partials(const AttentionWindow& window, std::int64_t from, std::int64_t to) const;
  Partials partials(const SequenceRows& s) const { return partials(s.window, s.position, s.position + s.rows - 1); }
  VisibleKeys visible(const AttentionWindow& window, std::int64_t position) const {
    return visible_keys(window, shape_.window, position);
  }

  // Partials of those rows of the tile that see a key of this number; the others' stay as they were. With `expanded` its keys and
  // values stand in for the cache's.
  void partial(const CacheView& cache, const Tile& tile, const Partials& list, std::int64_t number, float* part,
               std::int64_t part_stride, std::byte* scratch, const ExpandedChunk* expanded = nullptr) const;
  // The same, merged into the rows' running partials: numbers ascend from a row's first one on.
  void advance(const CacheView& cache, const Tile& tile, const Partials& list, std::int64_t number, float* part,
               std::int64_t part_stride, std::byte* scratch, const ExpandedChunk* expanded = nullptr) const;
  // Partials over all visible keys. False: stopped.
  bool stream(const RunContext& context, const Tile& tile, float* part, std::int64_t part_stride, std::byte* scratch) const;
  // Merges the slots of a query row at `position` into its running partial, those of this wave. slots (chunks + 1, slot()): the
  // running partial is the last. list: of its sequence.
  void gather(const Division& division, std::int64_t wave, const Partials& list, const VisibleKeys& row, float* slots) const;

 private:
  AttentionShape shape_;
  const AttentionKernels* kernels_;
};

// The items of one phase, in ascending order as a worker takes them.
class TileItems {
 public:
  struct Item {
    const SequenceRows* sequence = nullptr;
    std::int64_t rows_before = 0;  // rows of earlier sequences of the selection
    std::int64_t kv_head = 0, first = 0, m = 0;
    std::int64_t number = 0;  // split only: of the sequence's partials
  };

  TileItems(const TileRunner& runner, const Selection& selection, const Division& division, std::int64_t wave)
      : runner_(&runner), selection_(selection), division_(division), wave_(wave) {}
  // False: there is no such item. Numbers must not fall from call to call.
  bool find(std::int64_t number, Item& item);

 private:
  const TileRunner* runner_;
  Selection selection_;
  Division division_;
  std::int64_t wave_;
  std::size_t at_ = 0;
  std::int64_t items_before_ = 0, rows_before_ = 0;
};

}  // namespace dsv31::inline v1::cpu
