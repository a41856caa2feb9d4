// The table of chat formats: how each renders, how its answers read, and how a model is recognised.
#pragma once

#include <string_view>

#include "dsv31/conversation.h"
#include "lib/text/format_markers.h"

namespace dsv31::inline v1::text {

struct FormatRow {
  ChatFormat format;
  std::string_view name;
  PromptText (*render)(const std::vector<Message>&, const ChatOptions&);  // null: a template does it
  AnswerSyntax syntax;
  bool has_tools;
};
// Throws unsupported for detect.
const FormatRow& format_row(ChatFormat format);

// The built-in format whose markers a vocabulary has; detect: none.
ChatFormat format_of_vocabulary(const Tokenizer& tokenizer) noexcept;
// The built-in format that a template is a rendering of; detect: none.
ChatFormat format_of_template(std::string_view source) noexcept;
// How answers to a template's prompts are written.
AnswerSyntax syntax_of_template(std::string_view source, const Tokenizer& tokenizer) noexcept;
// Whether a template has a place for tools.
bool template_reads_tools(std::string_view source) noexcept;

}  // namespace dsv31::inline v1::text
