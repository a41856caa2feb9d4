// Hugging Face's tokenizer.json, with what tokenizer_config.json and generation_config.json add to it.
#pragma once

#include <string_view>

#include "lib/io/json.h"
#include "lib/text/vocab_data.h"

namespace dsv31::inline v1::text {

// The files beside it; null where absent.
struct TokenizerConfigs {
  const io::Json* tokenizer_config = nullptr;
  const io::Json* generation_config = nullptr;
  const io::Json* config = nullptr;
};

// Throws format, limit, unsupported (a model, normalizer, pre-tokenizer or pattern that is not known), mismatch (special ids).
VocabData load_tokenizer_json(std::string_view json, const TokenizerConfigs& configs = {});

}  // namespace dsv31::inline v1::text
