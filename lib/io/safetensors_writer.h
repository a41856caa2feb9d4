// safetensors files of tensors whose order and sizes are known before their bytes: model.safetensors, or shards with an index.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/io/checkpoint.h"
#include "lib/io/output_folder.h"

namespace dsv31::inline v1::io {

class SafetensorsWriter {
 public:
  // Tensors come in the order of `tensors` (name, type, shape and bytes count). metadata is an object of strings, or null.
  SafetensorsWriter(OutputFolder& folder, std::vector<TensorInfo> tensors, const Json& metadata, std::uint64_t shard_bytes);
  // The next n bytes of the tensors, one after the other; a call stays within a tensor.
  void write(const void* data, std::size_t n);
  // All tensors are complete: writes the index, where there is one.
  void finish();

 private:
  void begin_shard();
  void put(const void* data, std::size_t n);

  OutputFolder& folder_;
  std::vector<TensorInfo> tensors_;  // file is the shard
  Json metadata_;
  std::uint64_t shards_ = 1, total_ = 0;
  std::unique_ptr<OutputFile> file_;
  std::uint64_t offset_ = 0;  // in file_
  std::size_t tensor_ = 0;    // being written
  std::uint64_t within_ = 0;  // its bytes so far
};

}  // namespace dsv31::inline v1::io
