// Reads the key-value part of a GGUF file.
#pragma once

#include <cstdint>
#include <string_view>

#include "lib/io/bytes.h"
#include "lib/io/checkpoint.h"

namespace dsv31::inline v1::io {

// n_kv key-values at the cursor. Names of errors are keys; see gguf.h for the layout.
Metadata read_gguf_metadata(Cursor& cursor, std::uint64_t n_kv, std::string_view where, const OpenLimits& limits);

// general.alignment: a u32, a power of two up to 1 MiB; 32 where absent.
std::uint64_t gguf_alignment(const Metadata& metadata, std::string_view where);

}  // namespace dsv31::inline v1::io
