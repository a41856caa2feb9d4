// What the tests of the attention ops share: random activations, a paged cache, and steps run phase by phase by real threads.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "backends/cpu/attention.h"
#include "backends/simd/isa.h"
#include "dsv31/quant.h"
#include "tests/catch.h"

namespace attention_rig {

using namespace dsv31;

struct Free {
  void operator()(std::byte* p) const { std::free(p); }
};
// Exactly `bytes`, 64-byte aligned, so that the sanitizer sees any access past the end.
inline std::unique_ptr<std::byte[], Free> aligned_bytes(std::size_t bytes, int fill) {
  void* p = nullptr;
  if (posix_memalign(&p, 64, bytes == 0 ? 1 : bytes) != 0) throw std::bad_alloc();
  std::memset(p, fill, bytes);
  return std::unique_ptr<std::byte[], Free>(static_cast<std::byte*>(p));
}

// Even values in [-1, 1), the same everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 2 + 1) {}
  float next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(static_cast<std::int32_t>(state_ >> 32)) * 0x1p-31f;
  }
  std::vector<float> floats(std::int64_t n, float scale) {
    std::vector<float> v(static_cast<std::size_t>(n));
    for (float& x : v) x = next() * scale;
    return v;
  }

 private:
  std::uint64_t state_;
};

inline std::vector<cpu::Isa> isas() {
  std::vector<cpu::Isa> list{cpu::Isa::generic};
  if (simd::supported(simd::Isa::avx2)) list.push_back(cpu::Isa::avx2);
  if (simd::supported(simd::Isa::avx512)) list.push_back(cpu::Isa::avx512);
  return list;
}

// The cache blocks of one layer, three a slab.
class Cache {
 public:
  Cache(const CacheDesc& desc, DType type, int blocks) : desc_(desc), blocks_(blocks) {
    const std::int64_t width = desc.width();
    bytes_ = static_cast<std::size_t>(width * kBlock) * (type == DType::f16 ? 2 : 4);
    for (int b = 0; b < blocks; b += kSlab) {
      slabs_.push_back(aligned_bytes(bytes_ * kSlab, 0));
      pointers_.push_back(slabs_.back().get());
    }
    view_ = {.type = type, .slabs = pointers_.data(), .slab_blocks = kSlab, .layer_offset = &offset_, .layer_bytes = &bytes_};
  }
  Cache(const Cache&) = delete;

  const CacheView& view() const { return view_; }
  std::span<const std::byte> bytes(std::int32_t id) const { return {view_.block(0, id), bytes_}; }
  float value(std::int32_t id, std::int64_t element) const {
    const std::byte* b = view_.block(0, id);
    if (view_.type == DType::f16) {
      std::uint16_t h;
      std::memcpy(&h, b + 2 * element, 2);
      return f16_to_f32(h);
    }
    float f;
    std::memcpy(&f, b + 4 * element, 4);
    return f;
  }
  float key(std::int32_t id, std::int64_t head, std::int64_t slot, std::int64_t d) const {
    return value(id, (head * desc_.head_dim + d) * kBlock + slot);
  }
  float kv_value(std::int32_t id, std::int64_t head, std::int64_t slot, std::int64_t d) const {
    return value(id, (desc_.num_key_value_heads + head) * desc_.head_dim * kBlock + slot * desc_.head_dim + d);
  }
  // Values in [-1, 1) everywhere: a past that no step has to compute.
  void randomise(std::uint64_t seed) {
    Random random(seed);
    for (int id = 0; id < blocks_; ++id)
      for (std::byte *b = view_.block(0, id), *end = b + bytes_; b < end;) {
        const float f = random.next();
        const std::uint16_t h = f32_to_f16(f);
        const std::size_t n = view_.type == DType::f16 ? 2 : 4;
        std::memcpy(b, n == 2 ? static_cast<const void*>(&h) : &f, n);
        b += n;
      }
  }
  // What a rewound cache may hold past the last position.
  void fill(std::int32_t id, std::uint8_t byte) { std::memset(view_.block(0, id), byte, bytes_); }

 private:
  static constexpr int kSlab = 3;
  CacheDesc desc_;
  int blocks_;
  std::size_t bytes_ = 0, offset_ = 0;
  std::vector<std::unique_ptr<std::byte[], Free>> slabs_;
  std::vector<std::byte*> pointers_;
  CacheView view_;
};

// One value of a step: (rows, width) in rows of row_stride(width); the padding holds NaN.
class Value {
 public:
  Value(std::int64_t rows, std::int64_t width)
      : width_(width), data_(aligned_bytes(static_cast<std::size_t>(rows * row_stride(width)) * 4, 0xff)) {}
  float* data() { return reinterpret_cast<float*>(data_.get()); }
  float* row(std::int64_t r) { return data() + r * row_stride(width_); }
  std::int64_t width() const { return width_; }

 private:
  std::int64_t width_;
  std::unique_ptr<std::byte[], Free> data_;
};

inline PrepareContext prepare_context(const Graph& graph, const float* const* vectors, DType cache_type) {
  PrepareContext context;
  context.graph = &graph;
  context.vectors = vectors;
  context.cache_type = cache_type;
  return context;
}

inline void run(const PreparedOp& op, const Step& step, std::vector<Value>& values, int workers, bool stopped = false) {
  std::vector<float*> pointers;
  for (Value& v : values) pointers.push_back(v.data());
  const auto scratch = aligned_bytes(op.scratch_bytes(step.rows(), workers), 0xff);
  const int phases = op.phases(step);
  std::atomic<bool> stop{stopped};
  for (int phase = 0; phase < phases; ++phase) {
    std::atomic<std::int64_t> cursor{0};
    const auto work = [&](int worker) {
      op.run(phase, {.step = &step,
                     .values = pointers.data(),
                     .scratch = scratch.get(),
                     .worker = worker,
                     .workers = workers,
                     .cursor = &cursor,
                     .stop = &stop});
    };
    std::vector<std::thread> others;
    for (int w = 1; w < workers; ++w) others.emplace_back(work, w);
    work(0);
    for (std::thread& t : others) t.join();
  }
}

// Rows [first, first + rows) of the inputs of one sequence, as part of a step.
struct Piece {
  std::size_t sequence = 0;
  std::int64_t first = 0, rows = 0;
};
using Schedule = std::vector<std::vector<Piece>>;

// One sequence of n rows in steps of `rows`.
inline Schedule in_steps(std::int64_t n, std::int64_t rows) {
  Schedule schedule;
  for (std::int64_t i = 0; i < n; i += rows) schedule.push_back({{0, i, std::min(rows, n - i)}});
  return schedule;
}

// The tables of a step. Neighbouring blocks of a sequence have ids that are far apart and fall.
struct StepTables {
  std::vector<std::int32_t> tokens, positions, sequence_of_row;
  std::vector<SequenceRows> sequences;
  std::vector<std::vector<std::int32_t>> blocks;

  static std::int32_t block_id(std::size_t sequence, std::int64_t block, std::int64_t blocks_each, std::size_t sequences) {
    const std::int64_t total = blocks_each * static_cast<std::int64_t>(sequences);
    return static_cast<std::int32_t>(total - 1 -
                                     (static_cast<std::int64_t>(sequence) + block * static_cast<std::int64_t>(sequences)));
  }

  // windows: by sequence of all; none where it is empty. Blocks that they hide have an id that leads nowhere.
  StepTables(const std::vector<Piece>& pieces, std::int64_t blocks_each, std::size_t total_sequences, std::int64_t window,
             const std::vector<AttentionWindow>& windows = {}) {
    blocks.resize(pieces.size());
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      const Piece& piece = pieces[p];
      for (std::int64_t b = 0; b * kBlock < piece.first + piece.rows; ++b) {
        const bool behind = window > 0 && (b + 1) * kBlock <= piece.first - window + 1;
        blocks[p].push_back(behind ? -1 : block_id(piece.sequence, b, blocks_each, total_sequences));
        if (windows.empty()) continue;
        const AttentionWindow& w = windows[piece.sequence];
        const bool before =
            b * kBlock < w.sinks || piece.first<w.hides_from(), after = (b + 1) * kBlock> piece.first - w.window + 1;
        if (!before && !after) blocks[p].back() = INT32_MAX;
      }
      SequenceRows s{.first_row = static_cast<std::int64_t>(tokens.size()), .rows = piece.rows, .position = piece.first};
      (window > 0 ? s.window_blocks : s.blocks) = blocks[p].data();
      if (!windows.empty()) s.window = windows[piece.sequence];
      sequences.push_back(s);
      for (std::int64_t r = 0; r < piece.rows; ++r) {
        tokens.push_back(0);
        positions.push_back(static_cast<std::int32_t>(piece.first + r));
        sequence_of_row.push_back(static_cast<std::int32_t>(p));
      }
    }
  }

  Step step(const CacheView& cache) const {
    Step step;
    step.tokens = tokens;
    step.positions = positions;
    step.sequence_of_row = sequence_of_row;
    step.sequences = sequences;
    step.cache = cache;
    return step;
  }
};

}  // namespace attention_rig
