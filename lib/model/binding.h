// Where the bytes of a graph's matrices and vectors stand in the files of a checkpoint.
//
// A matrix (or a stack of them: experts, heads) is a list of pieces, runs of whole rows, so that a loader reads any range of rows
// with a few reads straight into packing: experts that are a tensor each, slices of a fused projection and whole tensors are the
// same thing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "dsv31/tensor.h"
#include "lib/io/checkpoint.h"

namespace dsv31::inline v1::model {

// `rows` rows of MatrixSource::stored_cols elements, one after the other.
struct Piece {
  std::size_t file = 0;
  std::uint64_t offset = 0;
  std::int64_t rows = 0;
};

// The rows of scale blocks (128 x 128 elements each) that cover one piece. The piece starts `lead` rows into the first of them.
struct ScalePiece {
  std::size_t file = 0;
  std::uint64_t offset = 0;
  DType type = DType::f32;
  std::int64_t lead = 0;
};

struct MatrixSource {
  MatrixDesc desc;                 // what the backends get: after the transform
  DType stored = DType::f32;       // of the pieces
  std::int64_t stored_cols = 0;    // of the pieces
  bool transpose = false;          // each matrix of the stack is stored as (desc.cols, desc.rows)
  bool decode = false;             // stored is decoded, block scales applied, and desc.type is f32
  std::vector<Piece> pieces;       // in order of the stack; none crosses from one matrix to the next unless it is whole matrices
  std::vector<ScalePiece> scales;  // by piece, for F8_E4M3; else empty

  // What the packed form carries: floats (desc.count, ceil(desc.rows / 128), ceil(desc.cols / 128)); 0 where there are none.
  std::size_t scale_count() const;
  std::uint64_t stored_bytes() const;  // of the pieces, scales left out
};

// One or more 1-D tensors; added to every element after decoding.
struct VectorSource {
  std::string_view name;  // lives as long as the ModelSpec
  std::int64_t width = 0;
  std::size_t file = 0;
  std::uint64_t offset = 0;
  DType type = DType::f32;
  float plus = 0;  // 1 for the norms of gemma in Hugging Face checkpoints: the factor is 1 + weight
};

// Rows [row_begin, row_end) of matrix `matrix` of the stack as blocks of desc.type: dst (row_end - row_begin, desc.cols). A
// source with `transpose` reads the whole matrix for any range of it: ask for all rows at once. Thread-safe.
void read_rows(const io::Checkpoint& checkpoint, const MatrixSource& source, std::int64_t matrix, std::int64_t row_begin,
               std::int64_t row_end, std::byte* dst);
// dst (scale_count()).
void read_scales(const io::Checkpoint& checkpoint, const MatrixSource& source, float* dst);
// dst (width).
void read_vector(const io::Checkpoint& checkpoint, const VectorSource& source, float* dst);

}  // namespace dsv31::inline v1::model
