// One position of one layer in the key-value cache of a sequence. The layout of a block stands at CacheDesc in dsv31/op.h; an
// element is float32, or float16 to nearest even.
#pragma once

#include <cstring>

#include "backends/reference/rows_op.h"
#include "dsv31/quant.h"

namespace dsv31::inline v1::reference {

class CacheSlot {
 public:
  double key(std::int64_t head, std::int64_t d) const {
    return load(key_at(head, d));
  }  // K (num_key_value_heads, head_dim, kBlock)
  double value(std::int64_t head, std::int64_t d) const {
    return load(value_at(head, d));
  }  // V (num_key_value_heads, kBlock, head_dim)
  double latent(std::int64_t d) const { return load(slot_ * desc_->latent + d); }  // (kBlock, latent)
  double index_key(std::int64_t d) const { return load(index_key_at(d)); }         // behind the latents, (indexer, kBlock)
  void set_key(std::int64_t head, std::int64_t d, float x) const { store(key_at(head, d), x); }
  void set_value(std::int64_t head, std::int64_t d, float x) const { store(value_at(head, d), x); }
  void set_latent(std::int64_t d, float x) const { store(slot_ * desc_->latent + d, x); }
  void set_index_key(std::int64_t d, float x) const { store(index_key_at(d), x); }

 private:
  friend class LayerCache;
  CacheSlot(std::byte* block, DType type, const CacheDesc& desc, std::int64_t slot)
      : block_(block), type_(type), desc_(&desc), slot_(slot) {}

  std::int64_t key_at(std::int64_t head, std::int64_t d) const { return (head * desc_->head_dim + d) * kBlock + slot_; }
  std::int64_t value_at(std::int64_t head, std::int64_t d) const {
    return desc_->num_key_value_heads * desc_->head_dim * kBlock + (head * kBlock + slot_) * desc_->head_dim + d;
  }
  std::int64_t index_key_at(std::int64_t d) const { return desc_->latent * kBlock + d * kBlock + slot_; }
  double load(std::int64_t i) const {
    if (type_ == DType::f32) {
      float x = 0;
      std::memcpy(&x, block_ + i * 4, 4);
      return x;
    }
    std::uint16_t half = 0;
    std::memcpy(&half, block_ + i * 2, 2);
    return f16_to_f32(half);
  }
  void store(std::int64_t i, float x) const {
    if (type_ == DType::f32) {
      std::memcpy(block_ + i * 4, &x, 4);
      return;
    }
    const std::uint16_t half = f32_to_f16(x);
    std::memcpy(block_ + i * 2, &half, 2);
  }

  std::byte* block_;
  DType type_;
  const CacheDesc* desc_;
  std::int64_t slot_;  // of kBlock
};

// The cache of a layer for the sequence that a row belongs to.
class LayerCache {
 public:
  LayerCache(const RunContext& c, const CacheDesc& desc, std::int32_t layer, std::int64_t row)
      : cache_(&c.step->cache), desc_(&desc), layer_(layer) {
    const SequenceRows& s = c.step->sequences[static_cast<std::size_t>(c.step->sequence_of_row[static_cast<std::size_t>(row)])];
    blocks_ = desc.window > 0 ? s.window_blocks : s.blocks;
  }
  CacheSlot at(std::int64_t position) const {
    return {cache_->block(layer_, blocks_[position / kBlock]), cache_->type, *desc_, position % kBlock};
  }

 private:
  const CacheView* cache_;
  const CacheDesc* desc_;
  std::int32_t layer_;
  const std::int32_t* blocks_;  // block id of each run of kBlock positions
};

}  // namespace dsv31::inline v1::reference
