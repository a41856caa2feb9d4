// Reading what assembly.cc bound. All ranges were checked against shapes there and against the files when they were opened.
#include "lib/model/binding.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "dsv31/quant.h"

namespace dsv31::inline v1::model {
namespace {

constexpr std::int64_t kScaleBlock = 128;

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
std::int64_t blocks(std::int64_t n) { return (n + kScaleBlock - 1) / kScaleBlock; }

// Calls fn(piece index, first row in the piece, rows, first row in the request) for each part of rows [begin, end) of the stack.
template <class Fn>
void each_run(const MatrixSource& source, std::int64_t begin, std::int64_t end, const Fn& fn) {
  std::int64_t start = 0;
  for (std::size_t i = 0; i < source.pieces.size() && start < end; ++i) {
    const std::int64_t rows = source.pieces[i].rows;
    const std::int64_t from = std::max(begin, start), to = std::min(end, start + rows);
    if (from < to) fn(i, from - start, to - from, from - begin);
    start += rows;
  }
}

void decode_scales(const io::Checkpoint& checkpoint, const ScalePiece& piece, std::int64_t first, std::int64_t count,
                   float* dst) {
  const FormatInfo& info = format(piece.type);
  std::vector<std::byte> raw(size(count * info.bytes));
  checkpoint.files[piece.file]->read_at(piece.offset + static_cast<std::uint64_t>(first * info.bytes), raw.data(), raw.size());
  info.decode(raw.data(), count, dst);
}

// dst (rows, stored_cols) float32 of stored rows [begin, end) of the stack.
void read_decoded(const io::Checkpoint& checkpoint, const MatrixSource& source, std::int64_t begin, std::int64_t end,
                  float* dst) {
  const FormatInfo& info = format(source.stored);
  const std::int64_t cols = source.stored_cols, row_blocks = cols / info.block, row_bytes = row_blocks * info.bytes;
  std::vector<std::byte> raw;
  std::vector<float> scales;
  each_run(source, begin, end, [&](std::size_t i, std::int64_t first, std::int64_t rows, std::int64_t at) {
    const Piece& piece = source.pieces[i];
    raw.resize(size(rows * row_bytes));
    checkpoint.files[piece.file]->read_at(piece.offset + static_cast<std::uint64_t>(first * row_bytes), raw.data(), raw.size());
    float* to = dst + at * cols;
    info.decode(raw.data(), rows * row_blocks, to);
    if (source.scales.empty()) return;
    const ScalePiece& scale = source.scales[i];
    const std::int64_t block_row = (scale.lead + first) / kScaleBlock, block_end = blocks(scale.lead + first + rows);
    scales.resize(size((block_end - block_row) * blocks(cols)));
    decode_scales(checkpoint, scale, block_row * blocks(cols), static_cast<std::int64_t>(scales.size()), scales.data());
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c)
        to[r * cols + c] *= scales[size(((scale.lead + first + r) / kScaleBlock - block_row) * blocks(cols) + c / kScaleBlock)];
  });
}

// dst (cols, rows) = src (rows, cols) transposed, elements of `bytes` bytes.
void transpose_into(const std::byte* src, std::int64_t rows, std::int64_t cols, std::int64_t col_begin, std::int64_t col_end,
                    std::int64_t bytes, std::byte* dst) {
  for (std::int64_t c = col_begin; c < col_end; ++c)
    for (std::int64_t r = 0; r < rows; ++r) {
      std::memcpy(dst, src + (r * cols + c) * bytes, size(bytes));
      dst += bytes;
    }
}

}  // namespace

std::size_t MatrixSource::scale_count() const {
  return scales.empty() || decode ? 0 : size(desc.count * blocks(desc.rows) * blocks(desc.cols));
}

std::uint64_t MatrixSource::stored_bytes() const {
  std::int64_t rows = 0;
  for (const Piece& piece : pieces) rows += piece.rows;
  return static_cast<std::uint64_t>(format_bytes(stored, rows * stored_cols));
}

void read_rows(const io::Checkpoint& checkpoint, const MatrixSource& source, std::int64_t matrix, std::int64_t row_begin,
               std::int64_t row_end, std::byte* dst) {
  const std::int64_t stored_rows = source.transpose ? source.desc.cols : source.desc.rows;
  const std::int64_t base = matrix * stored_rows;
  const std::int64_t begin = source.transpose ? base : base + row_begin;
  const std::int64_t end = source.transpose ? base + stored_rows : base + row_end;
  if (source.decode && !source.transpose) {
    read_decoded(checkpoint, source, begin, end, reinterpret_cast<float*>(dst));
    return;
  }
  if (source.decode) {
    std::vector<float> stored(size(stored_rows * source.stored_cols));
    read_decoded(checkpoint, source, begin, end, stored.data());
    transpose_into(reinterpret_cast<const std::byte*>(stored.data()), stored_rows, source.stored_cols, row_begin, row_end,
                   sizeof(float), dst);
    return;
  }
  const std::int64_t row_bytes = format_bytes(source.stored, source.stored_cols);
  std::vector<std::byte> stored(source.transpose ? size(stored_rows * row_bytes) : 0);
  std::byte* to = source.transpose ? stored.data() : dst;
  each_run(source, begin, end, [&](std::size_t i, std::int64_t first, std::int64_t rows, std::int64_t at) {
    const Piece& piece = source.pieces[i];
    checkpoint.files[piece.file]->read_at(piece.offset + static_cast<std::uint64_t>(first * row_bytes), to + at * row_bytes,
                                          size(rows * row_bytes));
  });
  if (source.transpose)
    transpose_into(stored.data(), stored_rows, source.stored_cols, row_begin, row_end, format(source.stored).bytes, dst);
}

void read_scales(const io::Checkpoint& checkpoint, const MatrixSource& source, float* dst) {
  if (source.scale_count() == 0) return;
  // Stored grids follow each other by piece; a piece is whole blocks of rows except at the end of its matrix.
  const std::int64_t col_blocks = blocks(source.stored_cols);
  const std::int64_t per_matrix = blocks(source.desc.rows) * blocks(source.desc.cols);
  std::vector<float> grid(source.transpose ? size(per_matrix) : 0);
  std::int64_t filled = 0;  // floats of the current matrix
  for (std::size_t i = 0; i < source.pieces.size(); ++i) {
    const std::int64_t count = blocks(source.pieces[i].rows) * col_blocks;
    decode_scales(checkpoint, source.scales[i], 0, count, (source.transpose ? grid.data() : dst) + filled);
    filled += count;
    if (filled < per_matrix) continue;
    if (source.transpose)
      transpose_into(reinterpret_cast<const std::byte*>(grid.data()), blocks(source.desc.cols), col_blocks, 0, col_blocks,
                     sizeof(float), reinterpret_cast<std::byte*>(dst));
    dst += filled;
    filled = 0;
  }
}

void read_vector(const io::Checkpoint& checkpoint, const VectorSource& source, float* dst) {
  const FormatInfo& info = format(source.type);
  std::vector<std::byte> raw(size(source.width * info.bytes));
  checkpoint.files[source.file]->read_at(source.offset, raw.data(), raw.size());
  info.decode(raw.data(), source.width, dst);
  for (std::int64_t i = 0; i < source.width; ++i) dst[i] += source.plus;
}

}  // namespace dsv31::inline v1::model
