#include "lib/text/format_table.h"

#include <fmt/format.h>

#include "lib/text/format_deepseek.h"
#include "lib/text/format_text.h"

namespace dsv31::inline v1::text {
namespace {

constexpr FormatRow kFormats[] = {
    {ChatFormat::own_template, "own_template", nullptr, {}, true},
    {ChatFormat::deepseek_v2, "deepseek_v2", deepseek::render_v2, {CallSyntax::none, false, false}, false},
    {ChatFormat::deepseek_v3, "deepseek_v3", deepseek::render_v3, {CallSyntax::deepseek, false, false}, false},
    {ChatFormat::deepseek_r1, "deepseek_r1", deepseek::render_r1, {CallSyntax::deepseek, true, true}, false},
    {ChatFormat::deepseek_v3_1, "deepseek_v3_1", deepseek::render_v3_1, {CallSyntax::deepseek, true, false}, true},
    {ChatFormat::deepseek_v3_2, "deepseek_v3_2", deepseek::render_v3_2, {CallSyntax::dsml, true, false}, true},
};

// The first row whose text is there, and whose other text is not, decides.
struct TemplateRow {
  std::string_view has, also;
  ChatFormat format;
  AnswerSyntax syntax;
};
constexpr TemplateRow kTemplates[] = {
    {deepseek::kDsml, "", ChatFormat::deepseek_v3_2, {CallSyntax::dsml, true, false}},
    {"tool▁calls▁begin", "```json", ChatFormat::deepseek_v3, {CallSyntax::deepseek, false, false}},
    {"tool▁calls▁begin", "", ChatFormat::deepseek_v3_1, {CallSyntax::deepseek, true, false}},
    {"<tool_call>", "", ChatFormat::detect, {CallSyntax::hermes, false, true}},
};

struct VocabularyRow {
  std::string_view has, also;
  ChatFormat format;
};
constexpr VocabularyRow kVocabularies[] = {
    {deepseek::kAssistant, deepseek::kDsml, ChatFormat::deepseek_v3_2},
    {deepseek::kAssistant, "<｜search▁begin｜>", ChatFormat::deepseek_v3_1},
    {deepseek::kAssistant, deepseek::kThink, ChatFormat::deepseek_r1},
    {deepseek::kAssistant, deepseek::kCallsBegin, ChatFormat::deepseek_v3},
};

bool holds(std::string_view text, std::string_view what) noexcept { return text.find(what) != std::string_view::npos; }

const TemplateRow* template_row(std::string_view source) noexcept {
  for (const TemplateRow& row : kTemplates)
    if (holds(source, row.has) && holds(source, row.also)) return &row;
  return nullptr;
}

}  // namespace

const FormatRow& format_row(ChatFormat format) {
  for (const FormatRow& row : kFormats)
    if (row.format == format) return row;
  throw Error(Code::unsupported, "chat_format", "got detect or an unknown format, expected one that renders");
}

ChatFormat format_of_vocabulary(const Tokenizer& tokenizer) noexcept {
  for (const VocabularyRow& row : kVocabularies)
    if (tokenizer.find(row.has) != kNoToken && tokenizer.find(row.also) != kNoToken) return row.format;
  return ChatFormat::detect;
}

ChatFormat format_of_template(std::string_view source) noexcept {
  const TemplateRow* row = template_row(source);
  if (row == nullptr) return ChatFormat::detect;
  if (row->format == ChatFormat::deepseek_v3 && holds(source, deepseek::kEndThink)) return ChatFormat::deepseek_r1;
  return row->format;
}

AnswerSyntax syntax_of_template(std::string_view source, const Tokenizer& tokenizer) noexcept {
  AnswerSyntax syntax;
  syntax.trim_thoughts = true;
  if (const TemplateRow* row = template_row(source)) syntax = row->syntax;
  if (!syntax.thoughts) syntax.thoughts = holds(source, deepseek::kEndThink) || tokenizer.find(deepseek::kEndThink) != kNoToken;
  if (format_of_template(source) == ChatFormat::deepseek_r1) syntax.trim_thoughts = true;
  return syntax;
}

bool template_reads_tools(std::string_view source) noexcept { return holds(source, "tools"); }

}  // namespace dsv31::inline v1::text

namespace dsv31::inline v1 {

std::string_view to_string(ChatFormat format) noexcept {
  for (const text::FormatRow& row : text::kFormats)
    if (row.format == format) return row.name;
  return "detect";
}

std::string file_prompt(std::string_view file_name, std::string_view file_content, std::string_view question) {
  return fmt::format("[file name]: {}\n[file content begin]\n{}\n[file content end]\n{}", file_name, file_content, question);
}

PromptText render_chat(ChatFormat format, const std::vector<Message>& messages, const ChatOptions& options) {
  const text::FormatRow& row = text::format_row(format);
  if (row.render == nullptr)
    throw Error(Code::unsupported, "chat_format",
                "got own_template, expected a built-in format (ChatTemplate renders the model's own)");
  if (!options.kwargs.empty() && format != ChatFormat::deepseek_v3_2)
    throw Error(Code::argument, "kwargs", fmt::format("got variables for {}, expected none", row.name));
  return row.render(messages, options);
}

}  // namespace dsv31::inline v1
