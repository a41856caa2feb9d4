// The part of AnswerParser that reads tool calls.
#include <fmt/format.h>

#include <algorithm>

#include "lib/io/json.h"
#include "lib/text/format_parser.h"

namespace dsv31::inline v1::text {
namespace {

using Kind = AnswerEvent::Kind;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

std::string_view trim(std::string_view s) {
  while (!s.empty() && is_space(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_space(s.back())) s.remove_suffix(1);
  return s;
}

// Empty where `json` is the text of one object, else why not.
std::string_view object_fault(std::string_view json) {
  try {
    return io::parse_json(json, "arguments").is_object() ? "" : "the arguments are no JSON object";
  } catch (const Error& error) {
    return error.code() == Code::limit ? "the arguments are too deep or too large" : "the arguments are no valid JSON";
  }
}

}  // namespace

void AnswerParser::begin_call(const Marker& m) {
  in_block_ = true;
  flush();
  raw_.clear(), head_.clear(), lead_.clear(), tail_.clear(), arguments_.clear(), value_.clear(), reason_.clear();
  keys_.clear();
  for (std::size_t i = 0; i < m.bytes.size(); ++i)
    if (!m.control[i]) raw_ += m.bytes[i];
  named_ = false;
  json_ = {};
  switch (syntax_.calls) {
    case CallSyntax::dsml:
      state_ = State::invoke_head;
      break;
    case CallSyntax::hermes:
      state_ = State::arguments;
      break;
    default:
      state_ = State::head;
  }
}

void AnswerParser::name_call(std::string_view name) {
  if (!reason_.empty()) return;
  if (name.empty()) return spoil("the call has no name");
  if (name.find_first_of("\r\n") != std::string_view::npos) return spoil("the name has more than one line");
  named_ = true;
  flush();
  if (sink_) sink_({Kind::call_begin, name, {}, call_});
}

void AnswerParser::argue(std::string_view json) {
  arguments_ += json;
  if (reason_.empty() && named_ && !json.empty()) emit(Kind::arguments, json);
}

void AnswerParser::spoil(std::string_view reason) {
  if (reason_.empty()) reason_ = reason;
}

void AnswerParser::take_lead() {
  std::string_view name = trim(head_), lead = trim(lead_);
  if (name == "function" && !lead.empty()) {  // V3 and R1: the type, then name and fence
    const std::size_t line = lead.find('\n');
    name = trim(lead.substr(0, line));
    lead = line == std::string_view::npos ? "" : trim(lead.substr(line));
  }
  if (lead.starts_with("```json"))
    lead.remove_prefix(7);
  else if (lead.starts_with("```"))
    lead.remove_prefix(3);
  lead = trim(lead);
  if (lead == "```" && !json_.started()) lead = {};  // an empty fence
  if (!lead.empty()) return spoil("text before the arguments");
  name_call(name);
}

void AnswerParser::call_byte(char c) {
  switch (state_) {
    case State::head:
      head_ += c;
      break;
    case State::arguments:
      if (json_.done()) {
        tail_ += c;
      } else if (json_.started() || c == '{') {
        if (!json_.started() && syntax_.calls == CallSyntax::deepseek) take_lead();
        json_.push(c);
        if (syntax_.calls == CallSyntax::deepseek)
          argue({&c, 1});
        else
          arguments_ += c;
      } else {
        lead_ += c;
      }
      break;
    case State::invoke_head:
      head_ += c;
      if (!head_.ends_with("\">")) break;
      {
        const std::string_view head = trim(head_);
        constexpr std::string_view kName = "name=\"";
        state_ = State::parameters;
        if (!head.starts_with(kName))
          spoil("the call has no name");
        else
          name_call(head.substr(kName.size(), head.size() - kName.size() - 2));
      }
      break;
    case State::parameters:
      if (!is_space(c)) spoil("text between the parameters");
      break;
    case State::parameter_head: {
      head_ += c;
      if (!head_.ends_with("\">")) break;
      constexpr std::string_view kName = " name=\"", kString = "\" string=\"true\">", kOther = "\" string=\"false\">";
      const std::string_view head = head_;
      value_is_string_ = head.ends_with(kString);
      const std::string_view end = value_is_string_ ? kString : kOther;
      state_ = State::value;
      value_.clear();
      if (!head.starts_with(kName) || !head.ends_with(end) || head.size() < kName.size() + end.size()) {
        spoil("a parameter without name and string");
        break;
      }
      const std::string key(head.substr(kName.size(), head.size() - kName.size() - end.size()));
      if (std::find(keys_.begin(), keys_.end(), key) != keys_.end()) spoil("a parameter given twice");
      std::string begin = keys_.empty() ? "{\"" : ", \"";
      append_json_escaped(begin, key);
      begin += value_is_string_ ? "\": \"" : "\": ";
      keys_.push_back(key);
      argue(begin);
      break;
    }
    case State::value:
      if (value_is_string_) {
        std::string escaped;
        append_json_escaped(escaped, {&c, 1});
        argue(escaped);
      } else {
        value_ += c;
      }
      break;
    default:
      break;
  }
}

void AnswerParser::call_mark(const Marker& m) {
  const auto keep_text = [&] {
    for (std::size_t i = 0; i < m.bytes.size(); ++i)
      if (!m.control[i]) raw_ += m.bytes[i];
  };
  switch (m.mark) {
    case Mark::sep:
      if (state_ == State::head) {
        state_ = State::arguments;
      } else {
        spoil("a separator inside the arguments");
      }
      return keep_text();
    case Mark::parameter:
      keep_text();
      if (state_ != State::parameters) return spoil("a parameter inside a tag");
      state_ = State::parameter_head;
      head_.clear();
      return;
    case Mark::end_parameter:
      keep_text();
      if (state_ != State::value) return spoil("the end of a parameter inside a tag");
      close_parameter();
      state_ = State::parameters;
      return;
    case Mark::call_end:
      return keep_text(), end_call(true);
    case Mark::calls_end:
    case Mark::calls_begin:
    case Mark::call_begin:
    case Mark::think:
    case Mark::end_think:  // the call has no end of its own
      if (state_ == State::parameters)
        end_call(true);
      else
        end_call(false);
      return on_mark(m);
  }
}

void AnswerParser::close_parameter() {
  if (value_is_string_) return argue("\"");
  const std::string_view value = trim(value_);
  try {
    io::parse_json(value, "parameter");
  } catch (const Error&) {
    return spoil("a parameter with string=\"false\" is no valid JSON");
  }
  argue(value);
}

void AnswerParser::end_arguments(bool marked) {
  if (!json_.started()) {
    take_lead();
    if (!marked) spoil("the call has no end");
    arguments_ = "{}";
    if (reason_.empty()) emit(Kind::arguments, arguments_);
    return;
  }
  if (!json_.done()) return spoil(marked ? "the arguments have no end" : "the call has no end");
  const std::string_view tail = trim(tail_);
  if (!tail.empty() && tail != "```") return spoil("text after the arguments");
  if (const auto fault = object_fault(arguments_); !fault.empty()) spoil(fault);
}

void AnswerParser::end_hermes() {
  if (!json_.started()) return spoil("the call holds no JSON object");
  if (!json_.done()) return spoil("the call has no end");
  if (!trim(lead_).empty() || !trim(tail_).empty()) return spoil("text around the JSON object of the call");
  io::Json call;
  try {
    call = io::parse_json(arguments_, "call");
  } catch (const Error&) {
    return spoil("the call is no valid JSON");
  }
  const io::Json* name = call.find("name");
  if (name == nullptr || !name->is_string()) return spoil("the call has no name");
  std::string_view key = "arguments";
  const io::Json* given = call.find(key);
  if (given == nullptr) given = call.find(key = "parameters");
  std::string arguments = "{}";
  if (given != nullptr && given->is_string()) {  // encoded twice
    arguments = given->as_string();
    if (!object_fault(arguments).empty()) return spoil("the arguments are no JSON object");
  } else if (given != nullptr && !given->is_null()) {
    if (!given->is_object()) return spoil("the arguments are no JSON object");
    arguments = raw_member(arguments_, key);
  }
  name_call(name->as_string());
  arguments_.clear();
  argue(arguments);
}

void AnswerParser::end_call(bool marked) {
  switch (state_) {
    case State::head:
      spoil("the call has no arguments");
      break;
    case State::arguments:
      syntax_.calls == CallSyntax::hermes ? end_hermes() : end_arguments(marked);
      break;
    case State::parameters:
      if (!marked) spoil("the call has no end");
      argue(keys_.empty() ? "{}" : "}");
      break;
    default:
      spoil("the call ends inside a tag or a parameter");
  }
  flush();
  if (sink_) {
    if (reason_.empty())
      sink_({Kind::call_end, {}, {}, call_});
    else
      sink_({Kind::malformed, raw_, reason_, call_});
  }
  ++call_;
  state_ = State::content;
  any_content_ = skip_space_ = true;
  skip_newlines_ = false;
}

}  // namespace dsv31::inline v1::text
