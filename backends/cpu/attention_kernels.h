// The inner loops of the attention ops, one table an instruction set. Plain data and pointers only: files compiled for an
// instruction set include this header.
//
// A partial of one row: float[0] = m, the greatest score; float[1] = l, the sum of exp(s - m); float[kPartHead ...] = o
// (v_width), the sum of exp(s_t - m) v_t. It covers the visible keys of one chunk, or of several merged ones.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/matmul.h"

namespace dsv31::inline v1::cpu {

inline constexpr std::int64_t kPartHead = 16;
inline constexpr std::int64_t kChunkBlocks = kChunk / kBlock;
inline constexpr std::int64_t kTile = 48;  // query rows that share one conversion of K and V; a multiple of the register tile's 6

constexpr std::int64_t part_floats(std::int64_t v_width) { return kPartHead + row_stride(v_width); }

// One chunk of one kv head for m query rows. Visible keys of row i: [begin[i], end[i]) of the chunk, none empty.
struct ChunkArgs {
  const std::byte* keys[kChunkBlocks] =
      {};  // K (k_width, kBlock); with `latent` (kBlock, value_stride); null where no row sees a key
  const std::byte* values[kChunkBlocks] = {};  // (kBlock, value_stride), the first v_width of each row
  bool half = true;                            // elements are f16, else f32
  bool latent = false;
  std::int64_t k_width = 0, v_width = 0, value_stride = 0;
  float scale = 1, softcap = 0;
  std::int64_t m = 0;        // at most kTile
  const float* q = nullptr;  // (m, q_stride)
  std::int64_t q_stride = 0;
  const std::int32_t *begin = nullptr, *end = nullptr;  // (m)
  float* part = nullptr;                                // (m, part_stride): the partials, written
  std::int64_t part_stride = 0;
  float* scores = nullptr;         // scratch (m, kChunk)
  float* key_scratch = nullptr;    // scratch (k_width, kBlock)
  float* value_scratch = nullptr;  // scratch (kBlock, row_stride(v_width))
};

// The indexer's scores of one block of keys for one row.
struct IndexArgs {
  const std::byte* keys = nullptr;  // (width, kBlock)
  bool half = true;
  std::int64_t width = 0, heads = 0;
  const float* q = nullptr;        // (heads, width)
  const float* weights = nullptr;  // (heads)
  float scale = 1;
  float* scratch = nullptr;  // (8, kBlock)
  float* out = nullptr;      // (kBlock): scale * sum over heads, ascending, of weight * max(q . k, 0); never -0
};

struct AttentionKernels {
  void (*chunk)(const ChunkArgs& args);
  // into = merge(into, from), both partials; into covers the earlier keys.
  void (*merge)(float* into, const float* from, std::int64_t v_width);
  // out (v_width) = o / l
  void (*finish)(const float* part, std::int64_t v_width, float* out);
  // out (2 * half) = [cos(a) * scale | sin(a) * scale], a = position * inv_freq (half)
  void (*angles)(const float* inv_freq, std::int64_t half, float position, float scale, float* out);
  // Turns x (dim) in place by angles (dim), as `angles` wrote them.
  void (*turn)(float* x, const float* angles, std::int64_t dim, bool interleaved);
  // dst[i * stride] = x[i], n elements of f16 (to nearest even) or f32; stride counts elements
  void (*cache)(const float* x, std::int64_t n, std::byte* dst, std::int64_t stride, bool half);
  // What expansion of latents takes. dst (width, kBlock) and dst (kBlock, ld): the first `width` elements of the rows of a latent
  // block src (kBlock, stride), turned or not.
  void (*turn_block)(const std::byte* src, std::int64_t stride, std::int64_t width, bool half, float* dst);
  void (*widen_block)(const std::byte* src, std::int64_t stride, std::int64_t width, bool half, float* dst, std::int64_t ld);
  // c (m, kBlock) = (first ? 0 : c) + a (m, k) b (k, kBlock); rows of a are lda floats apart, b and c are dense
  void (*product)(std::int64_t m, std::int64_t k, const float* a, std::int64_t lda, const float* b, float* c, bool first);
  void (*index)(const IndexArgs& args);
  // y = weight * ((x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps)) + bias; all (n), y may be x
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float eps, std::int64_t n, float* y);
};

extern const AttentionKernels attention_generic, attention_avx2, attention_avx512;

constexpr const AttentionKernels& attention_kernels(Isa isa) {
  isa = simd::vectors_of(isa);
  return isa == Isa::avx512 ? attention_avx512 : isa == Isa::avx2 ? attention_avx2 : attention_generic;
}

}  // namespace dsv31::inline v1::cpu
