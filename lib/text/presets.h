// What `tokenizer.ggml.pre` of a GGUF file names: pre-tokenizer patterns and the flags that go with them.
#pragma once

#include <span>
#include <string_view>

#include "lib/text/vocab_data.h"

namespace dsv31::inline v1::text {

struct Preset {
  std::span<const std::string_view> patterns;
  bool ignore_merges = false;
  bool adds_bos = false;  // where the file has no tokenizer.ggml.add_bos_token
};

// Null for a name that is not known. "default" is known; so are the aliases of the llama.cpp converter.
const Preset* find_preset(std::string_view name) noexcept;

}  // namespace dsv31::inline v1::text
