// safetensors: u64 N | N bytes of JSON, from '{' on, padded with spaces | data. The JSON maps a name to
//   {"dtype": "F32", "shape": [..], "data_offsets": [begin, end)}, offsets from the start of the data,
// and "__metadata__" to an object of strings. There is one canonical reading: the ranges cover the data without gap or overlap,
// each has the bytes that its shape asks for, no key is unknown or repeated.
#pragma once

#include <memory>
#include <string_view>

#include "lib/io/bytes.h"
#include "lib/io/checkpoint.h"

namespace dsv31::inline v1::io {

// Appends file and its tensors to `to`, and returns its __metadata__ (null where absent).
Json read_safetensors(std::shared_ptr<const Reader> file, std::string_view where, const Watch& watch, const OpenLimits& limits,
                      Checkpoint& to);

}  // namespace dsv31::inline v1::io
