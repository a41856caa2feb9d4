// How every op of this backend runs. The rows of a step are independent of each other within a phase, so they are cut into tiles
// of kTile rows; a worker takes the next tile and computes it alone, in double, in scratch of its own. A value is rounded to
// float32 where it is stored and nowhere before. A tile, not a row, is the unit only so that a weight row is decoded once for
// several rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "dsv31/backend.h"

namespace dsv31::inline v1::reference {

inline constexpr std::int64_t kTile = 16;

// Rows [begin, end) of a step.
struct Rows {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

// A few rows of doubles in scratch; a row starts at a multiple of 64 bytes.
struct Tile {
  double* data = nullptr;  // (m, row_stride(width))
  std::int64_t m = 0, width = 0;

  double* row(std::int64_t i) const { return data + i * row_stride(width); }
};
constexpr std::int64_t tile_doubles(std::int64_t width) { return kTile * row_stride(width); }

// A worker's scratch, handed out from the start for each tile of rows.
class Scratch {
 public:
  explicit Scratch(double* next) : next_(next) {}
  double* doubles(std::int64_t n) {
    double* p = next_;
    next_ += row_stride(n);
    return p;
  }
  Tile tile(std::int64_t m, std::int64_t width) { return {doubles(tile_doubles(width)), m, width}; }

 private:
  double* next_;
};

class RowsOp : public PreparedOp {
 public:
  std::size_t scratch_bytes(std::int64_t, int max_workers) const final {
    return static_cast<std::size_t>(max_workers) * worker_bytes();
  }
  int phases(const Step&) const override { return 1; }
  void run(int phase, const RunContext& c) const final {
    const std::int64_t n = rows(*c.step);
    auto* mine = reinterpret_cast<double*>(c.scratch + static_cast<std::size_t>(c.worker) * worker_bytes());
    for (std::int64_t r = c.take(kTile); r < n && !c.stopped(); r = c.take(kTile))
      run_tile(phase, c, {r, std::min(r + kTile, n)}, Scratch{mine});
  }
  std::string kernel() const final { return "double"; }

 protected:
  virtual std::int64_t rows(const Step& step) const { return step.rows(); }
  // Doubles that run_tile takes from its scratch.
  virtual std::int64_t scratch_doubles() const = 0;
  virtual void run_tile(int phase, const RunContext& c, Rows rows, Scratch scratch) const = 0;

 private:
  std::size_t worker_bytes() const { return static_cast<std::size_t>(row_stride(scratch_doubles())) * sizeof(double); }
};

// What an id of an op stands for when it is prepared; an absent vector is null, an absent matrix has rows 0.
inline const float* vector_of(const PrepareContext& p, VectorId id) {
  return id == kNone || p.vectors == nullptr ? nullptr : p.vectors[id];
}
inline PackedMatrix matrix_of(const PrepareContext& p, MatrixId id) { return id == kNone ? PackedMatrix{} : p.matrices[id]; }

// Rows of a value as doubles: tile (rows.size(), width).
inline void load_rows(const RunContext& c, ValueId id, Rows rows, const Tile& tile) {
  for (std::int64_t i = 0; i < rows.size(); ++i) std::copy_n(c.row(id, rows.begin + i, tile.width), tile.width, tile.row(i));
}

// out = residual + y, rounded to float32; y (rows.size(), width). kNone: no residual. `out` may be `residual`.
inline void store_sum(const RunContext& c, ValueId residual, const Tile& y, ValueId out, Rows rows) {
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    const float* add = residual == kNone ? nullptr : c.row(residual, rows.begin + i, y.width);
    float* to = c.row(out, rows.begin + i, y.width);
    for (std::int64_t j = 0; j < y.width; ++j)
      to[j] = static_cast<float>((add == nullptr ? 0 : static_cast<double>(add[j])) + y.row(i)[j]);
  }
}

}  // namespace dsv31::inline v1::reference
