// Long prefill of latent attention with expanded keys and values: relaxed numerics only, since the sums run in another order.
//
// Absorbed, a query row of a head costs 2 kv_lora_rank + rope products a key; expanded nope + rope + v. The expansion of a key
// for a head costs kv_lora_rank * (nope + v), so it pays once that many rows share it: from about 171 rows for DeepSeek's widths.
// An item is one head and up to 512 rows of a sequence: it expands chunk by chunk and advances all its rows over each.
#pragma once

#include "backends/cpu/attention_tiles.h"
#include "backends/cpu/op.h"

namespace dsv31::inline v1::cpu {

inline constexpr std::int64_t kExpandFrom = 192;  // rows of a sequence in a step
inline constexpr std::int64_t kExpandRows = 512;  // in a work item

class MlaExpanded {
 public:
  MlaExpanded(const MlaAttention& op, const AttentionShape& latent, const OpContext& context);

  struct Place {
    std::byte* tile;     // of the runner
    float* q;            // (rows, row_stride(k_width)): [q_nope | q_pe], as the caller leaves it
    float* parts;        // (rows, slot)
    float* w;            // W_UK of the head, decoded: (strips of kv_lora_rank, qk_nope_head_dim, 16)
    float* turned;       // (kv_lora_rank + qk_rope_head_dim, kBlock)
    float* keys;         // (kChunkBlocks, k_width, kBlock)
    float* values;       // (kChunk, row_stride(v_head_dim))
    Activations latent;  // (kBlock, kv_lora_rank)
    std::byte* kernel;
  };
  Place place(Area& area, std::int64_t rows) const;
  std::int64_t q_stride() const { return row_stride(runner_.shape().k_width); }
  // out_h for rows [first, first + m) of the sequence, m <= kExpandRows.
  void run(const RunContext& c, const SequenceRows& s, std::int64_t head, std::int64_t first, std::int64_t m,
           const Place& p) const;

 private:
  void expand(const CacheView& cache, const SequenceRows& s, std::int64_t head, std::int64_t block, const Place& p) const;

  MlaAttention op_;
  TileRunner runner_;
  Matrix k_b_, v_b_;  // v_b with its exact kernel
  const PackedFormat* k_format_;
};

}  // namespace dsv31::inline v1::cpu
