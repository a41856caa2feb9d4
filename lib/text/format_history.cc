#include "lib/text/format_history.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/text/format_text.h"

namespace dsv31::inline v1::text {
namespace {

constexpr std::string_view kOpen = kPlaceholder, kClose = "\xEE\x80\x81";  // U+E001
constexpr std::string_view kSpace = " \t\r\n";

PromptText slice(const PromptText& p, std::size_t begin, std::size_t end) {
  PromptText out;
  out.text = p.text.substr(begin, end - begin);
  for (const PromptText::Range& r : p.trusted) {
    const std::size_t b = std::max(r.begin, begin), e = std::min(r.end, end);
    if (b < e) out.trusted.push_back({b - begin, e - begin});
  }
  return out;
}

bool trusted_at(const PromptText& p, std::size_t begin, std::size_t end) {
  return std::any_of(p.trusted.begin(), p.trusted.end(),
                     [&](const PromptText::Range& r) { return r.begin <= begin && end <= r.end; });
}

// Where the open <think> at the end of a text begins; npos: there is none.
std::size_t open_thought(const PromptText& p) {
  const std::size_t at = p.text.rfind(deepseek::kThink);
  if (at == std::string::npos || p.text.find_first_not_of(kSpace, at + deepseek::kThink.size()) != std::string::npos)
    return std::string::npos;
  return trusted_at(p, at, at + deepseek::kThink.size()) ? at : std::string::npos;
}

// A beginning of placeholders that no message holds.
std::string unused_mark(const std::vector<Turn>& turns) {
  std::string mark(kOpen);
  for (const Turn& t : turns)
    while (t.message.content.find(mark) != std::string::npos || t.message.reasoning.find(mark) != std::string::npos)
      mark += kOpen;
  return mark;
}

// Cuts the rendered text at the placeholders. False where they are not all there, once, in order.
bool cut(const std::vector<Turn>& turns, const PromptText& rendered, const std::string& mark, std::vector<PromptPiece>& out) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const Turn& t = turns[i];
    if (!t.sampled) continue;
    const std::string content = fmt::format("{}c{}{}", mark, i, kClose), thought = fmt::format("{}t{}{}", mark, i, kClose);
    const std::size_t c = rendered.text.find(content);
    if (c == std::string::npos || c < at || rendered.text.find(content, c + content.size()) != std::string::npos) return false;
    std::size_t begin = c, first = t.content_begin;
    if (const std::size_t r = rendered.text.find(thought); r != std::string::npos) {
      if (!t.has_thought || r < at || r > c || rendered.text.find(thought, r + thought.size()) != std::string::npos) return false;
      begin = r, first = 0;
    }
    PromptText text = slice(rendered, at, begin);
    if (begin != c && t.opens_thought)
      if (const std::size_t open = open_thought(text); open != std::string::npos) text = slice(text, 0, open);
    out.push_back({true, std::move(text), i, 0});
    out.push_back({false, {}, i, first});
    at = c + content.size();
  }
  out.push_back({true, slice(rendered, at, rendered.text.size()), turns.size(), 0});
  return std::none_of(out.begin(), out.end(), [&](const PromptPiece& p) { return p.text.text.find(mark) != std::string::npos; });
}

}  // namespace

PromptLayout lay_out(const std::vector<Turn>& turns, const Render& render) {
  PromptLayout layout;
  const std::string mark = unused_mark(turns);
  std::vector<Message> messages;
  bool any = false, calls = false;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    messages.push_back(turns[i].message);
    if (!turns[i].sampled) continue;
    Message& m = messages.back();
    any = true;
    calls = calls || !m.tool_calls.empty();
    m.content = fmt::format("{}c{}{}", mark, i, kClose);
    m.reasoning = turns[i].has_thought ? fmt::format("{}t{}{}", mark, i, kClose) : std::string();
    m.tool_calls.clear();  // they are among the tokens
  }
  try {
    if (cut(turns, render(messages), mark, layout.pieces)) return layout;
  } catch (const Error&) {
    if (!calls) throw;  // a template may refuse results without calls
  }
  layout.pieces.clear();
  layout.rerendered = any;
  messages.clear();
  for (const Turn& t : turns) messages.push_back(t.message);
  layout.pieces.push_back({true, render(messages), turns.size(), 0});
  return layout;
}

std::size_t message_at(const std::vector<Turn>& turns, const PromptPiece& piece, std::size_t first, std::size_t at) {
  std::size_t from = 0;
  for (std::size_t i = first; i < piece.turn && i < turns.size(); ++i) {
    std::string_view content = turns[i].message.content;
    while (!content.empty() && kSpace.find(content.front()) != std::string_view::npos) content.remove_prefix(1);
    while (!content.empty() && kSpace.find(content.back()) != std::string_view::npos) content.remove_suffix(1);
    if (const std::size_t found = piece.text.text.find(content, from); found != std::string::npos) {
      from = found + content.size();
      if (at < from) return i;
    }
  }
  return std::min(piece.turn, turns.size());
}

bool ends_in_thought(const PromptText& prompt) { return open_thought(prompt) != std::string::npos; }

}  // namespace dsv31::inline v1::text
