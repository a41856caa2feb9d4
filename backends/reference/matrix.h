// Weights as numbers, and the one matrix product of this backend. The packed layout is the source's own: rows of blocks, one
// after the other. The value of a weight is the float32 that its format's decoder gives; with block scales (F8_E4M3) that value
// times the scale of its 128 x 128 block, rounded to float32 again.
#pragma once

#include "backends/reference/rows_op.h"

namespace dsv31::inline v1::reference {

// Rows of a weight matrix that are decoded at a time.
inline constexpr std::int64_t kPanel = 8;

// Bytes of one row, and of one matrix of a stack rounded up to 64.
std::size_t row_bytes(const MatrixDesc& w);
std::size_t matrix_bytes(const MatrixDesc& w);

// out (cols) = W[index][row]
void decode_row(const PackedMatrix& w, std::int64_t index, std::int64_t row, float* out);

// Doubles of the panel that multiply() decodes into.
constexpr std::int64_t panel_doubles(std::int64_t cols) { return (kPanel + 1) * row_stride(cols); }

// y (m, rows) = x (m, cols) W[index]^T, panel (panel_doubles(cols)). Leaves early, with y unfinished, when the step is stopped.
void multiply(const RunContext& c, const PackedMatrix& w, std::int64_t index, const Tile& x, const Tile& y, double* panel);

}  // namespace dsv31::inline v1::reference
