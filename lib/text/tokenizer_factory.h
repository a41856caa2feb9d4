// Tokenizers and chat templates of checkpoints: what the model loader calls.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dsv31/tokenizer.h"
#include "lib/io/checkpoint.h"

namespace dsv31::inline v1::text {

// From the GGUF key-values, or from tokenizer.json with the configs beside it. Throws not_found where the checkpoint has no
// vocabulary, else as Tokenizer::open.
Tokenizer tokenizer_from_checkpoint(const io::Checkpoint& checkpoint);

// The template as the checkpoint writes it: tokenizer.chat_template, chat_template.jinja, or tokenizer_config.json's
// chat_template (of a list the one named "default"). Empty where it has none.
std::string chat_template_source(const io::Checkpoint& checkpoint);

// The texts of the sequence tokens, as templates use them; empty where there is none.
std::string bos_text(const Tokenizer& tokenizer);
std::string eos_text(const Tokenizer& tokenizer);

// Odd but harmless things that loading found, one sentence each.
const std::vector<std::string>& tokenizer_warnings(const Tokenizer& tokenizer) noexcept;

}  // namespace dsv31::inline v1::text
