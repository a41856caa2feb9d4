// Generated calls: rendered, tokenised, taken apart again. Nothing leaks, nothing is lost.
#include "dsv31/conversation.h"
#include "lib/io/json.h"
#include "lib/text/format_json.h"
#include "lib/text/format_table.h"
#include "tests/catch.h"
#include "tests/text/format_stream.h"

using namespace dsv31;
using namespace dsv31::test;

namespace {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : x_(seed * 0x9E3779B97F4A7C15u + 1) {}
  std::size_t operator()(std::size_t n) {
    x_ ^= x_ << 13, x_ ^= x_ >> 7, x_ ^= x_ << 17;
    return static_cast<std::size_t>(x_ >> 11) % n;
  }

 private:
  std::uint64_t x_;
};

// Text that looks like markers, JSON, fences and half characters of them, in every mixture.
std::string text(Dice& d, std::size_t most) {
  static const char* kParts[] = {"a",
                                 " ",
                                 "\n",
                                 "\"",
                                 "\\",
                                 "{",
                                 "}",
                                 "[",
                                 "]",
                                 "é",
                                 "你",
                                 "😀",
                                 "```",
                                 "```json\n",
                                 "\t",
                                 "</think>",
                                 "<think>",
                                 "<｜tool▁call▁end｜>",
                                 "<｜tool▁calls▁begin｜>",
                                 "<｜tool▁sep｜>",
                                 "</｜DSML｜parameter>",
                                 "<｜DSML｜invoke name=\"x\">",
                                 "｜DSML｜",
                                 "<tool_call>",
                                 "</tool_call>",
                                 "<｜",
                                 "</",
                                 "<｜tool▁call",
                                 "\" string=\"true\">",
                                 ",",
                                 ":",
                                 "true",
                                 "\u0001",
                                 "<｜end▁of▁sentence｜>"};
  std::string out;
  for (std::size_t n = d(most + 1); n > 0; --n) out += kParts[d(std::size(kParts))];
  return out;
}

io::Json value(Dice& d, int depth) {
  switch (d(depth > 2 ? 5 : 7)) {
    case 0:
      return io::Json(text(d, 6));
    case 1:
      return io::Json(static_cast<std::int64_t>(d(100000)) - 500);
    case 2:
      return io::Json(static_cast<double>(d(1000)) / 8 + 0.0625);
    case 3:
      return io::Json(d(2) == 0);
    case 4:
      return io::Json();
    case 5: {
      io::Json::Array a;
      for (std::size_t n = d(4); n > 0; --n) a.push_back(value(d, depth + 1));
      return io::Json(std::move(a));
    }
    default: {
      io::Json::Object o;
      for (std::size_t n = d(4); n > 0; --n)
        o.emplace_back(std::string("k").append(std::to_string(n)) + (d(3) == 0 ? text(d, 2) : ""), value(d, depth + 1));
      return io::Json(std::move(o));
    }
  }
}

struct Given {
  std::string content;
  std::vector<ToolCall> calls;
};

Given shape(Dice& d) {
  Given s;
  s.content = text(d, 5);
  while (!s.content.empty() && (s.content.back() == '\n' || s.content.back() == ' ')) s.content.pop_back();
  for (std::size_t n = d(4); n > 0; --n) {
    io::Json::Object o;
    for (std::size_t k = d(5); k > 0; --k)
      o.emplace_back(std::string("key").append(std::to_string(k)) + (d(4) == 0 ? " é'<" : ""), value(d, 0));
    static const char* kNames[] = {"f", "get_weather", "ns.tool-2", "function", "日本"};
    s.calls.push_back({"", kNames[d(std::size(kNames))], text::python_json(io::Json(std::move(o)))});
  }
  return s;
}

// What the model would write for a shape: the rendered assistant's turn after its opening.
PromptText answer_text(ChatFormat f, const Given& s) {
  Message user{.role = "user", .content = "q"};
  const std::size_t before = render_chat(f, {user}, {.thinking = false}).text.size() -
                             (f == ChatFormat::deepseek_r1 ? std::string("<think>\n\n</think>\n\n").size() : 0);
  PromptText whole = render_chat(f, {user, {.role = "assistant", .content = s.content, .tool_calls = s.calls}},
                                 {.add_generation_prompt = false, .thinking = false});
  PromptText out;
  out.text = whole.text.substr(before);
  for (const auto& r : whole.trusted)
    if (r.end > before) out.trusted.push_back({std::max(r.begin, before) - before, r.end - before});
  return out;
}

// Qwen writes its calls itself.
PromptText hermes_text(const Given& s) {
  PromptText out;
  const auto put = [&](const std::string& t, bool trusted) {
    if (trusted) out.trusted.push_back({out.text.size(), out.text.size() + t.size()});
    out.text += t;
  };
  put(s.content, false);
  for (const ToolCall& c : s.calls) {
    put(out.text.empty() ? "<tool_call>" : "\n<tool_call>", true);
    put("\n{\"name\": \"" + c.name + "\", \"arguments\": " + c.arguments + "}\n", false);
    put("</tool_call>", true);
  }
  return out;
}

struct Read {
  std::string content;
  std::vector<ToolCall> calls;
  int others = 0;
};

Read read(const std::vector<Token>& tokens, const text::AnswerSyntax& syntax, const Tokenizer& t, Dice& d) {
  Read r;
  ToolCall open;
  const auto take = [&](const AnswerEvent& e) {
    using Kind = AnswerEvent::Kind;
    if (e.kind == Kind::content)
      r.content += e.text;
    else if (e.kind == Kind::call_begin)
      open = {"", std::string(e.text), ""};
    else if (e.kind == Kind::arguments)
      open.arguments += e.text;
    else if (e.kind == Kind::call_end)
      r.calls.push_back(open);
    else
      ++r.others;
  };
  text::AnswerParser parser(syntax, t, false, take);
  if (d(2) == 0) {  // token by token
    for (const Token id : tokens) parser.push(id);
  } else {  // in pieces of any size
    const auto bytes = bytes_of(tokens, syntax, t);
    for (std::size_t i = 0; i < bytes.size();) {
      std::string piece;
      const bool control = bytes[i].control;
      for (std::size_t n = 1 + d(60); n > 0 && i < bytes.size() && bytes[i].control == control; --n) piece += bytes[i++].c;
      parser.push(piece, control);
    }
  }
  parser.finish();
  return r;
}

bool same(const Given& s, const Read& r) {
  if (r.others != 0 || r.content != s.content || r.calls.size() != s.calls.size()) return false;
  for (std::size_t i = 0; i < s.calls.size(); ++i) {
    if (r.calls[i].name != s.calls[i].name) return false;
    if (io::parse_json(r.calls[i].arguments, "read") != io::parse_json(s.calls[i].arguments, "given")) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("20,000 generated answers come back as they were, none of their text becomes a marker") {
  int wrong = 0, calls = 0;
  for (std::uint64_t seed = 1; seed <= 20'000; ++seed) {
    Dice d(seed);
    Given s = shape(d);
    const ChatFormat formats[] = {ChatFormat::deepseek_v3, ChatFormat::deepseek_r1, ChatFormat::deepseek_v3_1,
                                  ChatFormat::deepseek_v3_2, ChatFormat::own_template};
    const ChatFormat f = formats[seed % 5];
    // The renderers of stored answers cut at </think>, which a sampled answer's content cannot hold as text there.
    for (std::size_t at; f != ChatFormat::own_template && (at = s.content.find("</think>")) != std::string::npos;)
      s.content.erase(at, 8);
    PromptText p;
    text::AnswerSyntax syntax{text::CallSyntax::hermes, true, false};
    if (f == ChatFormat::own_template) {
      p = hermes_text(s);
    } else {
      p = answer_text(f, s);
      syntax = text::format_row(f).syntax;
    }
    const Read r = read(marked().encode(p), syntax, marked(), d);
    calls += static_cast<int>(s.calls.size());
    if (!same(s, r) && ++wrong <= 5)
      UNSCOPED_INFO("seed " << seed << " " << to_string(f) << "\n  text " << p.text << "\n  content " << r.content << "\n  calls "
                            << r.calls.size() << " of " << s.calls.size() << ", others " << r.others
                            << (r.calls.empty() ? "" : "\n  " + r.calls[0].arguments));
  }
  CHECK(wrong == 0);
  CHECK(calls > 25'000);
}

TEST_CASE("damaged streams of markers and text never leak a control token and end") {
  const std::vector<std::string> controls = {"<｜end▁of▁sentence｜>",
                                             "<｜User｜>",
                                             "<｜Assistant｜>",
                                             "<｜tool▁calls▁begin｜>",
                                             "<｜tool▁calls▁end｜>",
                                             "<｜tool▁call▁begin｜>",
                                             "<｜tool▁call▁end｜>",
                                             "<｜tool▁sep｜>",
                                             "<think>",
                                             "</think>",
                                             "｜DSML｜",
                                             "<tool_call>",
                                             "</tool_call>"};
  const text::AnswerSyntax syntaxes[] = {{text::CallSyntax::deepseek, true, false},
                                         {text::CallSyntax::deepseek, true, true},
                                         {text::CallSyntax::dsml, true, false},
                                         {text::CallSyntax::hermes, true, true}};
  int leaks = 0, differ = 0, unbalanced = 0;
  for (std::uint64_t seed = 1; seed <= 10'000; ++seed) {
    Dice d(seed + 77'777);
    std::vector<Token> tokens;
    for (std::size_t n = 1 + d(30); n > 0; --n) {
      if (d(2) == 0) {
        tokens.push_back(marked().find(controls[d(controls.size())]));
        continue;
      }
      static const char* kParts[] = {"<",
                                     "</",
                                     "invoke",
                                     " name=\"f\">",
                                     "\n",
                                     "parameter",
                                     " name=\"k\" string=\"true\">",
                                     " name=\"k\" string=\"false\">",
                                     "1",
                                     "{",
                                     "}",
                                     "\"",
                                     "function_calls>",
                                     "invoke>",
                                     "parameter>",
                                     "f",
                                     "function",
                                     "\n```json\n",
                                     "\n```",
                                     "{\"name\": \"f\"}",
                                     "x",
                                     "é"};
      for (const Token id : marked().encode(kParts[d(std::size(kParts))], {.special = Special::none})) tokens.push_back(id);
    }
    const auto& syntax = syntaxes[seed % 4];
    std::string all;
    int begun = 0, ended = 0;
    const auto take = [&](const AnswerEvent& e) {
      all += e.text;
      begun += e.kind == AnswerEvent::Kind::call_begin;
      ended += e.kind == AnswerEvent::Kind::call_end || (e.kind == AnswerEvent::Kind::malformed && begun > ended);
    };
    text::AnswerParser parser(syntax, marked(), d(2) == 0, take);
    const bool in_thought = parser.in_thought();
    for (const Token id : tokens) parser.push(id);
    parser.finish();
    for (const std::string& c : controls) leaks += all.find(c) != std::string::npos;
    unbalanced += begun != ended;
    const auto bytes = bytes_of(tokens, syntax, marked());
    std::vector<std::size_t> every;
    for (std::size_t i = 1; i < bytes.size(); ++i) every.push_back(i);
    differ += events_of(bytes, every, syntax, marked(), in_thought) != events_of(tokens, syntax, marked(), in_thought);
  }
  CHECK(leaks == 0);
  CHECK(unbalanced == 0);
  CHECK(differ == 0);
}
