// GGUF, versions 2 and 3, little-endian:
//   "GGUF" | u32 version | i64 n_tensors | i64 n_kv
//   n_kv      x { string key | u32 type | value }
//   n_tensors x { string name | u32 n_dims | i64 ne[n_dims], contiguous dimension first | u32 ggml type | u64 offset }
//   padding to general.alignment | tensors, each at the next multiple of the alignment, in the order of their infos
// A string is a u64 length and its bytes; an array is a u32 element type, a u64 count and the elements. There is one canonical
// reading: what could be read in two ways (repeated names, gaps, overlaps) is refused.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "lib/io/bytes.h"
#include "lib/io/checkpoint.h"

namespace dsv31::inline v1::io {

// Whether the file starts like a GGUF.
bool has_gguf_magic(const Reader& file);
// "NAME-00001-of-00003.gguf", any numbers.
bool is_split_name(std::string_view name);

// Appends file and its tensors to `to`, and returns its key-values. `where` names the file in errors ("gguf", "gguf file 2").
Metadata read_gguf(std::shared_ptr<const Reader> file, std::string_view where, const Watch& watch, const OpenLimits& limits,
                   Checkpoint& to);

// A file and, where its split.count is above one, the other files of its set, found in `folder` by the name of the first. Without
// a folder a split set is an argument error.
Checkpoint open_gguf(std::shared_ptr<const Reader> first, const Folder* folder, std::string_view name,
                     const OpenOptions& options);

}  // namespace dsv31::inline v1::io
