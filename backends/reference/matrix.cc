#include "backends/reference/matrix.h"

#include <Eigen/Core>

#include "dsv31/quant.h"

namespace dsv31::inline v1::reference {

std::size_t row_bytes(const MatrixDesc& w) { return static_cast<std::size_t>(format_bytes(w.type, w.cols)); }

std::size_t matrix_bytes(const MatrixDesc& w) { return (static_cast<std::size_t>(w.rows) * row_bytes(w) + 63) / 64 * 64; }

void decode_row(const PackedMatrix& w, std::int64_t index, std::int64_t row, float* out) {
  const FormatInfo& f = format(w.desc.type);
  const std::byte* src = w.data + static_cast<std::size_t>(index) * w.stride + static_cast<std::size_t>(row) * row_bytes(w.desc);
  f.decode(src, w.desc.cols / f.block, out);
  if (w.scales == nullptr) return;
  constexpr std::int64_t kSide = 128;  // of a block of weight_scale_inv, partial at the edges
  const std::int64_t block_rows = (w.desc.rows + kSide - 1) / kSide, block_cols = (w.desc.cols + kSide - 1) / kSide;
  const float* scales = w.scales + (index * block_rows + row / kSide) * block_cols;  // (block_cols)
  for (std::int64_t k = 0; k < w.desc.cols; ++k) out[k] *= scales[k / kSide];
}

void multiply(const RunContext& c, const PackedMatrix& w, std::int64_t index, const Tile& x, const Tile& y, double* panel) {
  // y[i][r] = sum_k W[r][k] x[i][k]. A matrix-vector product for every row of x, never a matrix-matrix one, whose order of
  // summation would depend on how many rows there are.
  using Panel = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const std::int64_t cols = w.desc.cols, stride = row_stride(cols);
  auto* floats = reinterpret_cast<float*>(panel + kPanel * stride);  // (cols)
  for (std::int64_t begin = 0; begin < w.desc.rows && !c.stopped(); begin += kPanel) {
    const std::int64_t n = std::min(kPanel, w.desc.rows - begin);
    for (std::int64_t r = 0; r < n; ++r) {
      decode_row(w, index, begin + r, floats);
      std::copy_n(floats, cols, panel + r * stride);
    }
    const Eigen::Map<const Panel, 0, Eigen::OuterStride<>> weights(panel, n, cols, Eigen::OuterStride<>(stride));
    for (std::int64_t i = 0; i < x.m; ++i) {
      const Eigen::Map<const Eigen::VectorXd> in(x.row(i), cols);
      Eigen::Map<Eigen::VectorXd>(y.row(i) + begin, n).noalias() = weights * in;
    }
  }
}

}  // namespace dsv31::inline v1::reference
