// Answers taken apart: each case with its events, the same for every way to cut the stream.
#include <algorithm>

#include "tests/catch.h"
#include "tests/text/format_stream.h"

using namespace dsv31;
using namespace dsv31::test;
using text::AnswerSyntax;
using text::CallSyntax;

namespace {

constexpr AnswerSyntax kV31{CallSyntax::deepseek, true, false}, kR1{CallSyntax::deepseek, true, true},
    kV32{CallSyntax::dsml, true, false}, kQwen{CallSyntax::hermes, true, true}, kPlain{};

struct Case {
  const char* name;
  AnswerSyntax syntax;
  bool in_thought;
  std::string text;  // control tokens match in it, but for what stands between { and } as {{...}}: typed by normal tokens
  std::string events;
};

// Short names of control tokens: [cs] calls begin, [ce] calls end, [c] call begin, [/c] call end, [s] separator, [d] DSML, [E]
// end.
std::string spell(std::string s) {
  const std::pair<std::string, std::string> names[] = {{"[cs]", "<｜tool▁calls▁begin｜>"}, {"[ce]", "<｜tool▁calls▁end｜>"},
                                                       {"[c]", "<｜tool▁call▁begin｜>"},   {"[/c]", "<｜tool▁call▁end｜>"},
                                                       {"[s]", "<｜tool▁sep｜>"},          {"[d]", "｜DSML｜"},
                                                       {"[E]", "<｜end▁of▁sentence｜>"}};
  for (const auto& [from, to] : names)
    for (std::size_t at = 0; (at = s.find(from, at)) != std::string::npos; at += to.size()) s.replace(at, from.size(), to);
  return s;
}

std::vector<Token> tokens_of(const std::string& s, const Tokenizer& t) {
  PromptText p;
  std::size_t at = 0;
  while (at < s.size()) {  // «...» is typed text
    const std::size_t open = std::min(s.find("«", at), s.size());
    if (open > at) p.trusted.push_back({p.text.size(), p.text.size() + open - at});
    p.text += s.substr(at, open - at);
    if (open == s.size()) break;
    const std::size_t close = s.find("»", open);
    p.text += s.substr(open + 2, close - open - 2);
    at = close + 2;
  }
  return t.encode(p);
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"plain", kPlain, false, "Hello <think> [c] {} é 你好\n", "C(Hello   {} é 你好\n)"},
      {"V3.1 fast", kV31, false, "Hi there.[E]", "C(Hi there.)"},
      {"V3.1 thinking", kV31, true, "a < b </think>Yes\n\n", "R(a < b )C(Yes\n\n)"},
      {"the model opens its thought", kV31, false, "<think>hm</think>ok", "R(hm)C(ok)"},
      {"a typed marker is text", kV31, true, "x«</think>»y</think>«<think>[c]f[s]{}[/c]»z",
       "R(x</think>y)C(<think><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>z)"},
      {"a stray end of a thought goes away", kV31, false, "a</think>b", "C(ab)"},
      {"V3.1 call", kV31, false, "See:[cs][c]get[s]{\"a\": \"}{\"}[/c][c]put[s]{\"b\":[1,2]}[/c][ce][E]",
       "C(See:)B(get)A({\"a\": \"}{\"})EB(put)A({\"b\":[1,2]})E"},
      {"arguments hold typed markers", kV31, false, "[cs][c]f[s]{\"a\":\"«[/c][ce]»\"}[/c][ce]",
       "B(f)A({\"a\":\"<｜tool▁call▁end｜><｜tool▁calls▁end｜>\"})E"},
      {"no arguments", kV31, false, "[cs][c]f[s][/c][ce]", "B(f)A({})E"},
      {"no outer block", kV31, false, "[c]f[s]{}[/c]done", "B(f)A({})EC(done)"},
      {"no ends", kV31, false, "[cs][c]f[s]{}[c]g[s]{\"x\":1}", "B(f)A({})EB(g)A({\"x\":1})E"},
      {"V3 call", kR1, false,
       "[cs][c]function[s]get\n```json\n{\"a\": \"```\"}\n```[/c]\n[c]function[s]put\n```json\n{}\n```[/c][ce][E]",
       "B(get)A({\"a\": \"```\"})EB(put)A({})E"},
      {"V3 call after a thought", kR1, true, "\nLet me\n\nsee\n</think>\n\nok[cs][c]function[s]f\n```json\n{}\n```[/c][ce]",
       "R(Let me\n\nsee)C(ok)B(f)A({})E"},
      {"a call ends a thought that has no end", kV31, true, "hm[cs][c]f[s]{}[/c][ce]", "R(hm)B(f)A({})E"},
      {"malformed: cut short", kV31, false, "[cs][c]f[s]{\"a\": \"b", "B(f)A({\"a\": \"b)M(the call has no end: f{\"a\": \"b)"},
      {"malformed: no arguments", kV31, false, "[cs][c]f[/c][ce]ok", "M(the call has no arguments: f)C(ok)"},
      {"malformed: no name", kV31, false, "[c][s]{}[/c]", "M(the call has no name: {})"},
      {"malformed: no JSON", kV31, false, "[c]f[s]{a: 1}[/c]", "B(f)A({a: 1})M(the arguments are no valid JSON: f{a: 1})"},
      {"malformed: garbage around", kV31, false, "[c]f[s]x{}[/c][c]g[s]{}y[/c]",
       "M(text before the arguments: fx{})B(g)A({})M(text after the arguments: g{}y)"},
      {"malformed: control inside", kV31, false, "[c]f[s]{\"a\": \"<｜User｜>\"}[/c]",
       "B(f)A({\"a\": \")M(a control token inside the call: f{\"a\": \"\"})"},
      {"malformed: a call in a call", kV31, false, "[c]f[s]{\"a\": [c]g[s]{}[/c]",
       "B(f)A({\"a\": )M(the call has no end: f{\"a\": )B(g)A({})E"},
      {"V3.2 calls", kV32, false,
       "ok\n\n<[d]function_calls>\n<[d]invoke name=\"f\">\n<[d]parameter name=\"s\" string=\"true\">a \"q\" \\ "
       "</x>\n</[d]parameter>\n<[d]parameter name=\"n\" string=\"false\">[1, "
       "2]</[d]parameter>\n</[d]invoke>\n<[d]invoke name=\"g\">\n\n</[d]invoke>\n</[d]function_calls>[E]",
       "C(ok)B(f)A({\"s\": \"a \\\"q\\\" \\\\ </x>\\n\", \"n\": [1, 2]})EB(g)A({})E"},
      {"V3.2 without block, V4's name, ends missing", kV32, true,
       "t</think><[d]invoke name=\"f\"></[d]invoke>\n\n<[d]tool_calls>\n<[d]invoke name=\"g\">\n<[d]parameter name=\"k\" "
       "string=\"false\">1</[d]parameter>\n<[d]invoke "
       "name=\"h\">\n\n</[d]invoke>\n</[d]tool_calls>",
       "R(t)B(f)A({})EB(g)A({\"k\": 1})EB(h)A({})E"},
      {"V3.2 typed markers in a value", kV32, false,
       "<[d]invoke name=\"f\">\n<[d]parameter name=\"s\" string=\"true\">«</｜DSML｜parameter>»</[d]parameter>\n</[d]invoke>",
       "B(f)A({\"s\": \"</｜DSML｜parameter>\"})E"},
      {"V3.2 newlines that lead to no block", kV32, false, "a\n\n<b>\n\n\n<[d]invoke name=\"f\">\n</[d]invoke>",
       "C(a\n\n<b>\n)B(f)A({})E"},
      {"V3.2 malformed", kV32, false,
       "<[d]invoke name=\"f\">\n<[d]parameter name=\"a\">1</[d]parameter>\n</[d]invoke><[d]invoke name=\"g\">x</[d]invoke>y",
       "B(f)M(a parameter without name and string: <invoke name=\"f\">\n<parameter "
       "name=\"a\">1</parameter>\n</invoke>)B(g)M(text between the parameters: <invoke name=\"g\">x</invoke>)C(y)"},
      {"V3.2 malformed: twice, no JSON, cut short", kV32, false,
       "<[d]invoke name=\"f\">\n<[d]parameter name=\"a\" string=\"true\">1</[d]parameter><[d]parameter name=\"a\" "
       "string=\"true\">2</[d]parameter></[d]invoke><[d]invoke "
       "name=\"g\"><[d]parameter name=\"a\" string=\"false\">{</[d]parameter></[d]invoke><[d]invoke name=\"h\"><[d]parameter "
       "name=\"a\" string=\"true\">v",
       "B(f)A({\"a\": \"1\")M(a parameter given twice: <invoke name=\"f\">\n<parameter name=\"a\" "
       "string=\"true\">1</parameter><parameter name=\"a\" string=\"true\">2</parameter></invoke>)B(g)A({\"a\": "
       ")M(a parameter with string=\"false\" is no valid JSON: <invoke name=\"g\"><parameter name=\"a\" "
       "string=\"false\">{</parameter></invoke>)B(h)A({\"a\": \"v)M(the call ends inside a tag or a "
       "parameter: <invoke name=\"h\"><parameter name=\"a\" string=\"true\">v)"},
      {"Qwen calls", kQwen, false,
       "<think>\nhm\n</think>\n\nSee\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": "
       "\"</tool\"}}\n</tool_call>\n<tool_call>\n{\"arguments\": {}, \"name\": \"g\"}\n</tool_call>",
       "R(hm)C(See)B(f)A({\"a\": \"</tool\"})EB(g)A({})E"},
      {"Qwen: parameters, encoded twice, absent, no end", kQwen, false,
       "<tool_call>{\"name\":\"a\",\"parameters\":{ \"x\" : 1.0 "
       "}}</tool_call><tool_call>{\"name\":\"b\",\"arguments\":\"{\\\"y\\\":2}\"}</tool_call><tool_call>{\"name\":\"c\"}",
       "B(a)A({ \"x\" : 1.0 })EB(b)A({\"y\":2})EB(c)A({})E"},
      {"Qwen malformed", kQwen, false,
       "<tool_call>nothing</tool_call><tool_call>{\"name\":1}</tool_call><tool_call>{\"name\":\"f\",\"arguments\":[]}</"
       "tool_call><tool_call>{\"name",
       "M(the call holds no JSON object: nothing)M(the call has no name: {\"name\":1})M(the arguments are no JSON object: "
       "{\"name\":\"f\",\"arguments\":[]})M(the call has no end: {\"name)"},
  };
  return all;
}

}  // namespace

TEST_CASE("each shape of an answer gives its events") {
  for (const Case& c : cases()) {
    INFO(c.name);
    CHECK(events_of(tokens_of(spell(c.text), marked()), c.syntax, marked(), c.in_thought) == spell(c.events));
  }
}

TEST_CASE("every way to cut a stream gives the same events") {
  for (const Case& c : cases()) {
    INFO(c.name);
    const auto tokens = tokens_of(spell(c.text), marked());
    const auto bytes = bytes_of(tokens, c.syntax, marked());
    const std::string want = spell(c.events);
    std::vector<std::size_t> every;
    for (std::size_t i = 1; i < bytes.size(); ++i) every.push_back(i);
    CHECK(events_of(bytes, {}, c.syntax, marked(), c.in_thought) == want);
    CHECK(events_of(bytes, every, c.syntax, marked(), c.in_thought) == want);
    std::size_t wrong = 0;
    for (std::size_t i = 1; i < bytes.size(); ++i) {
      wrong += events_of(bytes, {i}, c.syntax, marked(), c.in_thought) != want;
      for (std::size_t j = i + 1; j < bytes.size() && j < i + 40; ++j)
        wrong += events_of(bytes, {i, j}, c.syntax, marked(), c.in_thought) != want;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("markers of a vocabulary without special tokens are their texts") {
  const auto events = [](std::string s, const AnswerSyntax& syntax, bool in_thought) {
    const auto tokens = bare().encode(spell(std::move(s)), {.special = Special::none});
    return events_of(tokens, syntax, bare(), in_thought);
  };
  CHECK(events("hm</think>ok <think>", kV31, true) == "R(hm)C(ok <think>)");
  CHECK(events("<think>hm</think>a</think>", kV31, false) == "R(hm)C(a</think>)");
  CHECK(events("<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"</tool_call>\"}}</tool_call>", kQwen, false) ==
        "B(f)A({\"a\":\"</tool_call>\"})E");
  CHECK(events("<tool_call>no</tool_call>", kQwen, false) == "M(the call holds no JSON object: <tool_call>no</tool_call>)");
  CHECK(events("[cs][c]f[s]{\"a\":\"[/c]\"}[/c][ce]", kV31, false) == spell("B(f)A({\"a\":\"[/c]\"})E"));
  CHECK(events("x\n\n<[d]function_calls>\n<[d]invoke name=\"f\">\n\n</[d]invoke>\n</[d]function_calls>", kV32, false) ==
        "C(x)B(f)A({})E");
}

TEST_CASE("only what may still become a marker waits") {
  std::string seen;
  text::AnswerParser parser(kV31, bare(), true, [&](const AnswerEvent& e) { seen += e.text; });
  parser.push("a < b </thi", false);
  CHECK(seen == "a < b ");
  parser.push("s</", false);
  CHECK(seen == "a < b </this");
  parser.push("think>x", false);
  CHECK(seen == "a < b </thisx");
  // Control tokens decide at once.
  seen.clear();
  text::AnswerParser sure(kV31, marked(), true, [&](const AnswerEvent& e) { seen += e.text; });
  sure.push("a </think", false);
  CHECK(seen == "a </think");
}
