// Blocks of the key-value cache of a model, counted by reference so that forks share them.
//
// A block is kBlock positions of all full-attention layers, or of all sliding-window layers: the two kinds have their own ids,
// because blocks behind a window are given back early. Blocks stand in slabs of kSlabBlocks, layer-major; slabs come from the
// accountant and go back to it when their last block is free. A block starts zeroed. Not thread-safe: the engine holds its lock.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dsv31/backend.h"
#include "lib/sched/memory.h"

namespace dsv31::inline v1::session {

enum class BlockKind : std::uint8_t { full, window };

class CachePool {
 public:
  static constexpr std::int32_t kSlabBlocks = 4;

  CachePool(const std::vector<CacheDesc>& layers, DType type, std::shared_ptr<sched::Accountant> accountant);

  bool has(BlockKind kind) const { return slab_bytes_[static_cast<int>(kind)] != 0; }
  std::size_t block_bytes(BlockKind kind) const { return slab_bytes_[static_cast<int>(kind)] / kSlabBlocks; }
  std::int64_t window() const { return window_; }  // the widest window of the model's window layers

  // A zeroed block with one reference. Throws no_memory and changes nothing.
  std::int32_t acquire(BlockKind kind);
  void share(std::int32_t block) { ++references_[static_cast<std::size_t>(block)]; }
  void release(std::int32_t block) noexcept;
  bool shared(std::int32_t block) const { return references_[static_cast<std::size_t>(block)] > 1; }
  // A private copy of a block.
  std::int32_t copy(BlockKind kind, std::int32_t block);

  CacheView view() const;
  std::int64_t blocks_in_use() const { return in_use_; }

 private:
  struct Slab {
    sched::Buffer memory;
    BlockKind kind = BlockKind::full;
    std::int32_t used = 0;
  };
  template <class F>
  void each_layer(BlockKind kind, std::int32_t block, F f) const;

  DType type_;
  std::shared_ptr<sched::Accountant> accountant_;
  std::vector<BlockKind> kind_;            // by layer
  std::vector<std::size_t> layer_offset_;  // by layer, in its slab
  std::vector<std::size_t> layer_bytes_;   // by layer
  std::size_t slab_bytes_[2] = {0, 0};     // by kind
  std::int64_t window_ = 0;
  std::vector<Slab> slabs_;  // a hole has no memory
  std::vector<std::byte*> slab_data_;
  std::vector<std::uint32_t> references_;  // by block id; 0: free
  std::int64_t in_use_ = 0;
};

}  // namespace dsv31::inline v1::session
