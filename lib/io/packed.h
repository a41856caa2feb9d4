// The packed file: all that a model needs to open, with its matrices in the layout that the kernels read, so that a mapping of
// the file is the weights. Little-endian.
//
//   header (128 bytes, with its own checksum) | head | zeros to a multiple of 4096 | payload
//
// The head has the texts of the source (a GGUF's key-values as they stand there, or config.json, tokenizer.json and the other
// files of a folder), the table of its tensors with the values of those of one dimension, and the table of packed matrices. Its
// checksum stands in the header and is compared on opening; those of the matrices stand in the table and are compared by
// verify_packed. The same code as for the source's own files makes config, tokenizer and graph from it. docs/packed.md has the
// fields. A checksum finds damage, not malice: every number is checked as if it came from a stranger.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/io/bytes.h"
#include "lib/io/checkpoint.h"

namespace dsv31::inline v1::io {

inline constexpr std::uint32_t kPackedVersion = 1;
// Of what stands in the payload: the bytes of every layout, and which matrices an architecture has in which order.
// tests/backends/conformance/packing_test.cc holds the bytes; a change of either is a new number.
inline constexpr std::uint32_t kPackingAbi = 2;
inline constexpr std::uint64_t kPackedHeaderBytes = 128;
inline constexpr std::uint64_t kPayloadAlignment = 4096, kMatrixAlignment = 64;

// A matrix of the payload (or a stack of equal ones), by MatrixId: count times `stride` bytes, then scale_count floats.
struct StoredMatrix {
  std::string name, layout;  // of its first tensor; of the backend that packed it
  DType type = DType::f32;
  std::int64_t count = 1, rows = 0, cols = 0;
  std::uint64_t stride = 0, scale_count = 0;
  std::uint64_t offset = 0;  // in the file
  std::uint64_t checksum = 0;

  std::uint64_t data_bytes() const { return stride * static_cast<std::uint64_t>(count); }
  std::uint64_t bytes() const { return data_bytes() + scale_count * sizeof(float); }
};

struct PackedContents {
  std::shared_ptr<const Reader> file;
  bool map = true;                                      // whether `file` may be mapped
  std::uint64_t source_hash = 0, source_bytes = 0;      // of the files it was made from
  std::uint64_t payload_offset = 0, payload_bytes = 0;  // in the file
  std::vector<StoredMatrix> matrices;                   // inside the payload
};

bool has_packed_magic(const Reader& file);

// A checkpoint whose tensors have values where they have one dimension (in files[0]); the others stand packed in `packed`.
// Throws unsupported for another version or packing, format for a wrong checksum, a truncated file or any other damage, limit.
Checkpoint open_packed(std::shared_ptr<const Reader> file, const OpenOptions& options);

// Writing: the head for the matrices (its length does not depend on offsets and checksums), then the header before it.
std::string packed_head(const Checkpoint& source, std::span<const StoredMatrix> matrices);
struct PackedHeader {
  bool gguf = true;
  std::uint64_t source_hash = 0, source_bytes = 0, payload_bytes = 0;
};
std::string packed_header(const PackedHeader& header, std::string_view head);
std::uint64_t payload_offset(std::uint64_t head_bytes);

// Hash of all bytes that a checkpoint was opened from, and their number.
struct SourceHash {
  std::uint64_t hash = 0, bytes = 0;
};
SourceHash hash_source(const Checkpoint& source, const Watch& watch);

// Reads the payload and compares every checksum. Throws format, naming the first matrix that differs. Progress counts bytes.
void verify_packed(const PackedContents& packed, const Watch& watch);

}  // namespace dsv31::inline v1::io
