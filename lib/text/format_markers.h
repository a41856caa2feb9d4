// Markers of answers: the texts between which a model writes its thought, its content and its calls.
//
// Where the vocabulary has a special token with a marker's text, only that token is the marker, and the same text typed out by
// normal tokens is text. Where it has none, the text is the marker. Both are one rule here: a stream is bytes with a flag each,
// set for bytes of special tokens, and a marker is a byte string with flags.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dsv31/tokenizer.h"

namespace dsv31::inline v1::text {

// How tool calls are written.
enum class CallSyntax {
  none,
  deepseek,  // V3, R1: <call>function<sep>NAME\n```json\nARGS\n```<end>; V3.1: <call>NAME<sep>ARGS<end>; one reader takes both
  dsml,      // V3.2: <invoke name="F"> with <parameter name="K" string="true|false">
  hermes,    // <tool_call>{"name": ..., "arguments": {...}}</tool_call>
};

struct AnswerSyntax {
  CallSyntax calls = CallSyntax::none;
  bool thoughts = false;       // <think> and </think>
  bool trim_thoughts = false;  // the newlines inside <think>\n ... \n</think>\n\n belong to the markers
};

enum class Mark { think, end_think, calls_begin, calls_end, call_begin, call_end, sep, parameter, end_parameter };

struct Marker {
  Mark mark;
  std::string bytes;
  std::vector<bool> control;  // (bytes), of a special token
  bool has_control = false;
};

// The markers of a syntax in a vocabulary, and the tokens that are parts of markers of any syntax: never text, whatever their
// kind.
struct MarkerSet {
  std::vector<Marker> markers;
  std::vector<Token> tokens;  // ascending
};
MarkerSet markers_of(const AnswerSyntax& syntax, const Tokenizer& tokenizer);

}  // namespace dsv31::inline v1::text
