#include "lib/text/format_markers.h"

#include <algorithm>
#include <span>

#include "lib/text/format_text.h"

namespace dsv31::inline v1::text {
namespace {

using namespace deepseek;

// One row a spelling; parts that may be special tokens are looked up each. Newlines before a block belong to it.
struct Row {
  Mark mark;
  std::string_view before, token, after;
};

constexpr Row kThoughts[] = {{Mark::think, "", kThink, ""}, {Mark::end_think, "", kEndThink, ""}};
constexpr Row kTrimmedThoughts[] = {{Mark::think, "", kThink, ""},
                                    {Mark::end_think, "", kEndThink, ""},
                                    {Mark::end_think, "\n", kEndThink, ""},
                                    {Mark::end_think, "\n\n", kEndThink, ""}};
constexpr Row kDeepSeek[] = {
    {Mark::calls_begin, "", kCallsBegin, ""},
    {Mark::calls_end, "", kCallsEnd, ""},
    {Mark::call_begin, "", kCallBegin, ""},
    {Mark::call_end, "", kCallEnd, ""},
    {Mark::sep, "", kSep, ""},
};
constexpr Row kDsmlRows[] = {
    {Mark::calls_begin, "\n\n<", kDsml, "function_calls>"},
    {Mark::calls_begin, "\n<", kDsml, "function_calls>"},
    {Mark::calls_begin, "<", kDsml, "function_calls>"},
    {Mark::calls_begin, "\n\n<", kDsml, "tool_calls>"},
    {Mark::calls_begin, "\n<", kDsml, "tool_calls>"},
    {Mark::calls_begin, "<", kDsml, "tool_calls>"},
    {Mark::calls_end, "</", kDsml, "function_calls>"},
    {Mark::calls_end, "</", kDsml, "tool_calls>"},
    {Mark::call_begin, "\n\n<", kDsml, "invoke"},
    {Mark::call_begin, "\n<", kDsml, "invoke"},
    {Mark::call_begin, "<", kDsml, "invoke"},
    {Mark::call_end, "</", kDsml, "invoke>"},
    {Mark::parameter, "<", kDsml, "parameter"},
    {Mark::end_parameter, "</", kDsml, "parameter>"},
};
constexpr Row kHermes[] = {{Mark::call_begin, "", "<tool_call>", ""},
                           {Mark::call_begin, "\n", "<tool_call>", ""},
                           {Mark::call_end, "", "</tool_call>", ""}};

// The id of a special token with this text.
Token special(std::string_view text, const Tokenizer& tokenizer) {
  const Token id = tokenizer.find(text);
  if (id == kNoToken) return kNoToken;
  const TokenKind kind = tokenizer.kind(id);
  return kind == TokenKind::control || kind == TokenKind::user_defined || kind == TokenKind::unknown ? id : kNoToken;
}

void add(MarkerSet& set, std::span<const Row> rows, const Tokenizer& tokenizer) {
  for (const Row& row : rows) {
    const bool control = special(row.token, tokenizer) != kNoToken;
    Marker m{row.mark, std::string(row.before), std::vector<bool>(row.before.size(), false), control};
    m.bytes += row.token;
    m.control.insert(m.control.end(), row.token.size(), control);
    m.bytes += row.after;
    m.control.insert(m.control.end(), row.after.size(), false);
    set.markers.push_back(std::move(m));
  }
}

}  // namespace

MarkerSet markers_of(const AnswerSyntax& syntax, const Tokenizer& tokenizer) {
  MarkerSet set;
  if (syntax.thoughts)
    add(set, syntax.trim_thoughts ? std::span<const Row>(kTrimmedThoughts) : std::span<const Row>(kThoughts), tokenizer);
  switch (syntax.calls) {
    case CallSyntax::none:
      break;
    case CallSyntax::deepseek:
      add(set, kDeepSeek, tokenizer);
      break;
    case CallSyntax::dsml:
      add(set, kDsmlRows, tokenizer);
      break;
    case CallSyntax::hermes:
      add(set, kHermes, tokenizer);
      break;
  }
  for (const std::span<const Row> rows : {std::span<const Row>(kThoughts), std::span<const Row>(kDeepSeek),
                                          std::span<const Row>(kDsmlRows), std::span<const Row>(kHermes)})
    for (const Row& row : rows)
      if (const Token id = special(row.token, tokenizer); id != kNoToken) set.tokens.push_back(id);
  std::sort(set.tokens.begin(), set.tokens.end());
  set.tokens.erase(std::unique(set.tokens.begin(), set.tokens.end()), set.tokens.end());
  return set;
}

}  // namespace dsv31::inline v1::text
