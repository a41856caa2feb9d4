// Answers taken apart while they stream: reasoning, content, tool calls.
//
// A machine that takes one byte (with its flag, see format_markers.h) or one whole marker a step. A step is taken as soon as the
// bytes up to it decide it and depends on nothing else, so every way to cut a stream gives the same events; only bytes that may
// still turn into a marker wait. Nothing that the model wrote as text is lost: it is in an event's text or in a malformed call's.
//
// Shapes that real models produce and that are taken: calls without their outer block, blocks without an end, a call whose end is
// missing but whose JSON object is complete, V4's block name, V3's and V3.1's spelling in either's place.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "dsv31/conversation.h"
#include "lib/text/format_json.h"
#include "lib/text/format_markers.h"

namespace dsv31::inline v1::text {

class AnswerParser {
 public:
  using Sink = std::function<void(const AnswerEvent&)>;

  // in_thought: the prompt ended inside an open <think>.
  AnswerParser(const AnswerSyntax& syntax, const Tokenizer& tokenizer, bool in_thought, Sink sink);

  void push(Token token);
  // The next bytes, of one special token (control) or of text.
  void push(std::string_view bytes, bool control);
  // The end of the answer: what was held back is text, an open call is complete or malformed.
  void finish();

  bool in_thought() const noexcept { return state_ == State::thought; }

 private:
  enum class State {
    thought,
    content,
    head,         // deepseek: between <call> and <sep>
    arguments,    // deepseek: from <sep> on; hermes: the whole call
    invoke_head,  // dsml: after <invoke, up to ">
    parameters,   // dsml: between parameters
    parameter_head,
    value,
  };

  bool in_call() const noexcept { return state_ != State::thought && state_ != State::content; }
  void run(bool end);
  bool listens(const Marker& marker) const;
  void on_byte(char c, bool control);
  void on_mark(const Marker& marker);
  void call_byte(char c);
  void call_mark(const Marker& marker);

  void begin_call(const Marker& marker);
  void name_call(std::string_view name);
  void argue(std::string_view json);  // the next piece of the arguments
  void spoil(std::string_view reason);
  void take_lead();            // what stood between <sep> and the arguments
  void end_call(bool marked);  // marked: by the call's own end
  void end_arguments(bool marked);
  void end_hermes();
  void close_parameter();
  void emit(AnswerEvent::Kind kind, std::string_view text);
  void flush();

  const AnswerSyntax syntax_;
  const Tokenizer tokenizer_;
  const MarkerSet set_;
  Sink sink_;
  StreamDecoder decoder_;
  std::string buffer_;  // bytes not taken yet
  std::string flags_;   // (buffer), 1: of a special token

  State state_;
  bool skip_newlines_ = false, skip_space_ = false;
  bool any_content_ = false, in_block_ = false;

  // Events not handed out yet: a run of text of one kind.
  std::optional<AnswerEvent::Kind> pending_kind_;
  std::string pending_;

  // The open call.
  std::size_t call_ = 0;
  std::string raw_;  // all its text
  std::string head_, lead_, tail_;
  std::string arguments_, value_;
  std::vector<std::string> keys_;
  std::string reason_;  // why it is none
  bool named_ = false, value_is_string_ = false;
  JsonFollower json_;
};

}  // namespace dsv31::inline v1::text
