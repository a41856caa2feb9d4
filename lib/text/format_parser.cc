#include "lib/text/format_parser.h"

#include <algorithm>

namespace dsv31::inline v1::text {

using Kind = AnswerEvent::Kind;

AnswerParser::AnswerParser(const AnswerSyntax& syntax, const Tokenizer& tokenizer, bool in_thought, Sink sink)
    : syntax_(syntax),
      tokenizer_(tokenizer),
      set_(markers_of(syntax, tokenizer)),
      sink_(std::move(sink)),
      decoder_(tokenizer),
      state_(in_thought ? State::thought : State::content),
      skip_newlines_(in_thought && syntax.trim_thoughts) {}

void AnswerParser::push(Token token) {
  const TokenKind kind = tokenizer_.kind(token);
  const bool marker = std::binary_search(set_.tokens.begin(), set_.tokens.end(), token);
  if (marker || kind == TokenKind::control || kind == TokenKind::unknown) {
    push(decoder_.finish(), false);
    push(tokenizer_.piece(token), true);
  } else {
    push(decoder_.push(token), false);
  }
}

void AnswerParser::push(std::string_view bytes, bool control) {
  buffer_ += bytes;
  flags_.append(bytes.size(), control ? '\1' : '\0');
  run(false);
}

void AnswerParser::finish() {
  push(decoder_.finish(), false);
  run(true);
  if (in_call()) end_call(false);
  flush();
}

void AnswerParser::run(bool end) {
  std::size_t at = 0;
  while (at < buffer_.size()) {
    const Marker* whole = nullptr;
    bool part = false;
    for (const Marker& m : set_.markers) {
      if (m.bytes[0] != buffer_[at] || !listens(m)) continue;
      const std::size_t n = std::min(m.bytes.size(), buffer_.size() - at);
      bool same = buffer_.compare(at, n, m.bytes, 0, n) == 0;
      for (std::size_t i = 0; same && i < n; ++i) same = (flags_[at + i] != 0) == m.control[i];
      if (!same) continue;
      if (n < m.bytes.size())
        part = true;
      else if (whole == nullptr || m.bytes.size() < whole->bytes.size())
        whole = &m;
    }
    if (whole != nullptr) {
      on_mark(*whole);
      at += whole->bytes.size();
      continue;
    }
    if (part && !end) break;
    on_byte(buffer_[at], flags_[at] != 0);
    ++at;
  }
  buffer_.erase(0, at);
  flags_.erase(0, at);
  flush();
}

// Which markers mean something here. Spelled by special tokens they nearly always do; spelled as text only where they are due.
bool AnswerParser::listens(const Marker& m) const {
  const bool control = m.has_control;
  switch (state_) {
    case State::thought:
      return m.mark == Mark::end_think || (control && (m.mark == Mark::calls_begin || m.mark == Mark::call_begin));
    case State::content:
      switch (m.mark) {
        case Mark::think:
          return control || !any_content_;
        case Mark::end_think:
          return control;
        case Mark::calls_begin:
        case Mark::call_begin:
          return true;
        case Mark::calls_end:
          return control || in_block_;
        default:
          return false;
      }
    case State::head:
      return m.mark != Mark::parameter && m.mark != Mark::end_parameter &&
             (control || m.mark == Mark::sep || m.mark == Mark::call_end);
    case State::arguments:
      if (m.mark == Mark::sep || m.mark == Mark::think || m.mark == Mark::end_think) return control;
      return control || !json_.in_string();
    case State::invoke_head:
    case State::parameter_head:
      return control;
    case State::parameters:
      return m.mark != Mark::end_parameter && (control || (m.mark != Mark::think && m.mark != Mark::end_think));
    case State::value:
      return m.mark == Mark::end_parameter || (control && m.mark != Mark::parameter);
  }
  return false;
}

void AnswerParser::on_byte(char c, bool control) {
  if (control) {  // a special token that is no marker here
    if (in_call()) spoil("a control token inside the call");
    return;
  }
  if (in_call()) {
    raw_ += c;
    call_byte(c);
    return;
  }
  if (skip_newlines_ && (c == '\n' || c == '\r')) return;
  if (skip_space_ && (c == '\n' || c == '\r' || c == ' ' || c == '\t')) return;
  skip_newlines_ = skip_space_ = false;
  if (state_ == State::content) any_content_ = true;
  emit(state_ == State::thought ? Kind::reasoning : Kind::content, {&c, 1});
}

void AnswerParser::on_mark(const Marker& m) {
  if (in_call()) return call_mark(m);
  switch (m.mark) {
    case Mark::think:
      state_ = State::thought;
      skip_newlines_ = syntax_.trim_thoughts;
      skip_space_ = false;
      break;
    case Mark::end_think:
      state_ = State::content;
      skip_newlines_ = syntax_.trim_thoughts;
      break;
    case Mark::calls_begin:
      state_ = State::content;
      in_block_ = skip_space_ = true;
      break;
    case Mark::calls_end:
      in_block_ = false;
      skip_space_ = true;
      break;
    case Mark::call_begin:
      begin_call(m);
      break;
    default:
      break;
  }
}

void AnswerParser::emit(Kind kind, std::string_view text) {
  if (pending_kind_ != kind) {
    flush();
    pending_kind_ = kind;
  }
  pending_ += text;
}

void AnswerParser::flush() {
  if (!pending_kind_) return;
  const Kind kind = *pending_kind_;
  pending_kind_.reset();
  const std::string text = std::move(pending_);
  pending_.clear();
  if (sink_) sink_({kind, text, {}, call_});
}

}  // namespace dsv31::inline v1::text
