// Answers as streams for tests: text with markers becomes tokens, tokens become events, events become one line of text.
#pragma once

#include <string>
#include <vector>

#include "lib/text/format_parser.h"
#include "tests/text/tokenizer_fixtures.h"

namespace dsv31::test {

// A vocabulary with the control tokens of DeepSeek V3.2 and of Qwen; and one of bytes alone, where markers are text.
inline Tokenizer marked_tokenizer() {
  text::VocabData v = byte_vocab({});
  for (const char* s : {"<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<｜tool▁calls▁begin｜>",
                        "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"})
    add_special(v, s, TokenKind::control);
  for (const char* s : {"<think>", "</think>", "｜DSML｜", "<tool_call>", "</tool_call>"})
    add_special(v, s, TokenKind::user_defined);
  return finish(std::move(v));
}
inline const Tokenizer& marked() {
  static const Tokenizer t = marked_tokenizer();
  return t;
}
inline const Tokenizer& bare() {
  static const Tokenizer t = finish(byte_vocab({}));
  return t;
}

// Coalesced: R(reasoning) C(content) B(name) A(arguments) E or M(reason: text).
class Events {
 public:
  void take(const AnswerEvent& e) {
    using Kind = AnswerEvent::Kind;
    if (e.kind == last_ && (e.kind == Kind::reasoning || e.kind == Kind::content || e.kind == Kind::arguments)) {
      line_.insert(line_.size() - 1, e.text);
      return;
    }
    last_ = e.kind;
    constexpr const char* kNames[] = {"R", "C", "B", "A", "E", "M"};
    line_ += kNames[static_cast<int>(e.kind)];
    if (e.kind == Kind::call_end) return;
    line_ += "(";
    if (e.kind == Kind::malformed) line_ += std::string(e.reason) + ": ";
    line_ += std::string(e.text) + ")";
  }
  const std::string& line() const { return line_; }

 private:
  std::string line_;
  AnswerEvent::Kind last_ = AnswerEvent::Kind::call_end;
};

struct Byte {
  char c;
  bool control;
};

// The bytes of tokens as the parser sees them.
inline std::vector<Byte> bytes_of(const std::vector<Token>& tokens, const text::AnswerSyntax& syntax, const Tokenizer& t) {
  const text::MarkerSet set = text::markers_of(syntax, t);
  std::vector<Byte> out;
  for (const Token id : tokens) {
    const bool control = t.kind(id) == TokenKind::control || std::binary_search(set.tokens.begin(), set.tokens.end(), id);
    for (const char c : t.piece(id)) out.push_back({c, control});
  }
  return out;
}

// Pushes [0, n) cut at `cuts`; a piece of both kinds goes in as two.
inline std::string events_of(const std::vector<Byte>& bytes, const std::vector<std::size_t>& cuts,
                             const text::AnswerSyntax& syntax, const Tokenizer& t, bool in_thought) {
  Events events;
  text::AnswerParser parser(syntax, t, in_thought, [&](const AnswerEvent& e) { events.take(e); });
  std::string piece;
  std::size_t next = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const bool cut = next < cuts.size() && cuts[next] == i;
    if (cut) ++next;
    if (!piece.empty() && (cut || bytes[i].control != bytes[i - 1].control)) {
      parser.push(piece, bytes[i - 1].control);
      piece.clear();
    }
    piece += bytes[i].c;
  }
  if (!piece.empty()) parser.push(piece, bytes.back().control);
  parser.finish();
  return events.line();
}

inline std::string events_of(const std::vector<Token>& tokens, const text::AnswerSyntax& syntax, const Tokenizer& t,
                             bool in_thought) {
  Events events;
  text::AnswerParser parser(syntax, t, in_thought, [&](const AnswerEvent& e) { events.take(e); });
  for (const Token id : tokens) parser.push(id);
  parser.finish();
  return events.line();
}

}  // namespace dsv31::test
