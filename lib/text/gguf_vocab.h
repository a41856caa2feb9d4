// The vocabulary of a GGUF file.
#pragma once

#include "lib/io/metadata.h"
#include "lib/text/vocab_data.h"

namespace dsv31::inline v1::text {

// Throws not_found where the file has none, unsupported for a kind of vocabulary or pre-tokenizer that is not known, format,
// limit, and mismatch for a special id outside the vocabulary.
VocabData load_gguf_vocab(const io::Metadata& metadata);

}  // namespace dsv31::inline v1::text
