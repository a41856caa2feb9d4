// What the ops of the CPU backends share: a matrix with its kernel, the way a product is cut into work items, and scratch in two
// parts, one for all workers and one for each.
#pragma once

#include <string>
#include <string_view>

#include "backends/cpu/activations.h"

namespace dsv31::inline v1::cpu {

struct Matrix {
  PackedMatrix w;
  const MatmulKernel* kernel = nullptr;

  std::int64_t strips() const { return (w.desc.rows + kStrip - 1) / kStrip; }
  std::size_t scratch_bytes() const { return kernel->scratch_bytes(w.desc); }
};

struct OpContext {
  const PrepareContext& prepare;
  const KernelTable& kernels;
  Isa isa;
};

// The matrix of an id with the kernel for it; exact products for exact numerics or where `exact` asks for them. Throws
// unsupported.
Matrix bind(const OpContext& context, MatrixId id, bool exact = false);
const float* vector_of(const PrepareContext& context, VectorId id);  // null where absent

// Rows of activations that go through a kernel at a time: with 64 output rows at most 80 million products, a few milliseconds.
constexpr std::int64_t chunk_rows(std::int64_t cols) { return cols > 8192 ? 64 : 128; }

// The product of m activation rows with a matrix, cut into items of `item_strips` strips x `chunk` rows; chunks of the same
// strips follow each other.
struct Cut {
  std::int64_t strips = 0, item_strips = 0, rows = 0, chunk = 0;

  std::int64_t chunks() const { return (rows + chunk - 1) / chunk; }
  std::int64_t items() const { return (strips + item_strips - 1) / item_strips * chunks(); }
  struct Item {
    std::int64_t strip_begin, strip_end, row_begin, row_end;
  };
  Item item(std::int64_t i) const {
    const std::int64_t s = i / chunks() * item_strips, r = i % chunks() * chunk;
    return {s, s + item_strips < strips ? s + item_strips : strips, r, r + chunk < rows ? r + chunk : rows};
  }
};

// Strips an item, for products with `strips` strips in all: kPanelStrips, or fewer where that would leave workers without work.
constexpr std::int64_t item_strips(std::int64_t strips, int workers) {
  return strips >= 16 * static_cast<std::int64_t>(workers)  ? kPanelStrips
         : strips >= 4 * static_cast<std::int64_t>(workers) ? 2
                                                            : 1;
}

// Columns that strips [begin, end) of a matrix with `rows` rows really have.
constexpr std::int64_t width_of(std::int64_t rows, std::int64_t begin, std::int64_t end) {
  return (end * kStrip < rows ? end * kStrip : rows) - begin * kStrip;
}

// out (m, ld) = one panel, from `strip` on and not past strip_end, of the matrix of a head times m rows of x.
inline void project(const Matrix& w, std::int64_t head, std::int64_t strip, std::int64_t strip_end, const Activations& x,
                    std::int64_t m, float* out, std::int64_t ld, std::byte* scratch) {
  w.kernel->run({.w = &w.w,
                 .index = head,
                 .strip_begin = strip,
                 .strip_end = strip + kPanelStrips < strip_end ? strip + kPanelStrips : strip_end,
                 .x = &x,
                 .m = m,
                 .out = out,
                 .ld = ld,
                 .scratch = scratch});
}

// An op whose scratch for n rows is shared_bytes(n) for all workers and own_bytes(n) for each. Up to few() rows and past them
// both may only grow with n.
class CpuOp : public PreparedOp {
 public:
  std::size_t scratch_bytes(std::int64_t max_rows, int max_workers) const final;
  std::string kernel() const final { return kernel_; }

 protected:
  explicit CpuOp(const OpContext& context);
  void use(const Matrix& m);  // its kernel is named in kernel()

  virtual std::int64_t few() const = 0;
  // Lays the scratch of n rows out in the two areas, which may be without memory.
  virtual void measure(Area& shared, Area& own, std::int64_t n) const = 0;
  // The areas of a running worker.
  struct Areas {
    Area shared, own;
  };
  Areas areas(const RunContext& c, std::int64_t n) const;

  // out[r] = residual[r] + y in `width` columns from `column` on of values (n, features); without a residual out[r] = y.
  void store_sum(const RunContext& c, ValueId residual, const float* y, ValueId out, std::int64_t features, std::int64_t r,
                 std::int64_t column, std::int64_t width) const;

  const RowKernels& rows() const { return *rows_; }

 private:
  const RowKernels* rows_;
  std::string kernel_;
};

}  // namespace dsv31::inline v1::cpu
