// A model on disk as one table of tensors, whatever its container: a GGUF file, a split set of them, a .safetensors file, a
// Hugging Face folder, or a packed file made from one of these. Opening reads headers only; every tensor's range has been checked
// against the length of its file, so reading `bytes` at `offset` of `files[file]` stays inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dsv31/runtime.h"
#include "dsv31/tensor.h"
#include "lib/io/json.h"
#include "lib/io/metadata.h"
#include "lib/io/name_index.h"

namespace dsv31::inline v1::io {

struct TensorInfo {
  std::string name;
  DType type = DType::f32;
  Shape shape;               // most significant first; rank 0 is a safetensors scalar
  std::size_t file = 0;      // in Checkpoint::files
  std::uint64_t offset = 0;  // absolute in that file
  std::uint64_t bytes = 0;
};

struct OpenLimits {
  std::uint64_t max_tensors = 1u << 20;                         // of all files of a set; V3 FP8 has 91,000
  std::uint64_t max_keys = 1u << 16;                            // GGUF key-values
  std::uint64_t max_metadata_bytes = std::uint64_t{256} << 20;  // GGUF key-values as stored
  std::uint64_t max_header_bytes = 100'000'000;  // safetensors header; its reference implementation has the same cap
  std::uint64_t max_shards = 1u << 12;
  std::uint64_t max_text_bytes = std::uint64_t{64} << 20;  // config, index and template files
};

struct OpenOptions {
  Progress progress;  // Stage::read_metadata; its total is the length of the files, weights count as done at once
  const CancelToken* cancel = nullptr;  // must outlive the call
  OpenLimits limits;
  bool map = true;  // a packed file may be mapped
};

// What opening cost, for tests of linearity.
struct OpenCount {
  std::uint64_t reads = 0;       // calls of Reader::read_at
  std::uint64_t bytes_read = 0;  // delivered by them
  std::uint64_t probes = 0;      // of the name tables
};

struct PackedContents;  // lib/io/packed.h

struct Checkpoint {
  enum class Kind { gguf, safetensors };
  struct SideFile {
    std::string name;
    std::shared_ptr<const Reader> file;
  };

  Kind kind = Kind::gguf;
  Metadata metadata;                                 // GGUF key-values; empty for safetensors
  Json config, generation_config, tokenizer_config;  // of a folder; null where the file is absent
  Json file_metadata;                                // __metadata__ of the first safetensors file: an object of strings, or null
  std::shared_ptr<const Reader> tokenizer_json;      // null where absent
  std::string chat_template_jinja;                   // empty where absent
  std::vector<SideFile> side_files;                  // of a folder: those above, as they stand there
  // Of a packed file, else null. Its tensors of two and more dimensions have no place in `files`.
  std::shared_ptr<const PackedContents> packed;
  std::vector<std::shared_ptr<const Reader>> files;
  std::vector<TensorInfo> tensors;    // in file order; names are unique
  std::vector<std::string> warnings;  // odd but harmless things, one sentence each
  OpenCount count;

  const TensorInfo* find(std::string_view name) const noexcept;  // null where absent
  void reserve(std::size_t tensors);
  // Adds a tensor whose name is new; where it is taken, format (by a tensor of the same file) or mismatch (of another file).
  void add(TensorInfo tensor, std::string_view where);

 private:
  NameIndex index_;
};

// A path of the file system: a .gguf file (the first of its split set, the others are found beside it by name), a .safetensors
// file (config.json and the rest beside it are optional), or a Hugging Face folder.
Checkpoint open_checkpoint(const std::string& path, const OpenOptions& options = {});
// A single GGUF (or safetensors) file of the host.
Checkpoint open_checkpoint(std::shared_ptr<const Reader> file, const OpenOptions& options = {});
// A folder of the host; entry is a file name in it, or empty for a Hugging Face folder.
Checkpoint open_checkpoint(std::shared_ptr<const Folder> folder, const std::string& entry, const OpenOptions& options = {});

}  // namespace dsv31::inline v1::io
