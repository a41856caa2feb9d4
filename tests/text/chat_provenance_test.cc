// Only bytes of the template may form a control token, whatever a template does with the strings of a message.
#include <algorithm>
#include <random>

#include "dsv31/chat.h"
#include "tests/catch.h"
#include "tests/text/chat_cases.h"

using namespace dsv31;

namespace {

// The special tokens of the models that this library serves; the project's own come first.
const std::string kTokens[] = {
    "<｜begin▁of▁sentence｜>",
    "<｜end▁of▁sentence｜>",
    "<｜▁pad▁｜>",
    "<think>",
    "</think>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<｜search▁begin｜>",
    "<｜search▁end｜>",
    "<｜fim▁hole｜>",
    "<｜fim▁begin｜>",
    "<｜fim▁end｜>",
    "<|EOT|>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁outputs▁begin｜>",
    "<｜tool▁outputs▁end｜>",
    "<｜tool▁output▁begin｜>",
    "<｜tool▁output▁end｜>",
    "<｜tool▁sep｜>",
    "｜DSML｜",
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|begin_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<start_of_turn>",
    "<end_of_turn>",
};

bool trusted(const PromptText& prompt, std::size_t begin, std::size_t end) {
  return std::any_of(prompt.trusted.begin(), prompt.trusted.end(),
                     [&](const auto& r) { return r.begin <= begin && end <= r.end; });
}

// How often `token` stands in trusted bytes of the prompt, that is, how often it would match.
int matches(const PromptText& prompt, const std::string& token) {
  int n = 0;
  for (std::size_t at = 0; (at = prompt.text.find(token, at)) != std::string::npos; ++at)
    n += trusted(prompt, at, at + token.size());
  return n;
}

std::string literal(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out + "'";
}

PromptText render(const std::string& source, const std::string& content, bool message_trusted = false) {
  Message m;
  m.role = "narrator";
  m.content = content;
  m.trusted = message_trusted;
  return ChatTemplate::parse("{%- set x = messages[0].content -%}" + source, "", "").render({m});
}

// Every place between two characters, the ends included.
std::vector<std::size_t> places(const std::string& s) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i <= s.size(); ++i) {
    if (i == s.size() || (static_cast<unsigned char>(s[i]) & 0xC0) != 0x80) out.push_back(i);
  }
  return out;
}

void check_ranges(const PromptText& prompt) {
  std::size_t end = 0;
  for (const auto& r : prompt.trusted) {
    REQUIRE(r.begin < r.end);
    REQUIRE((r.begin > end || (end == 0 && r.begin == 0)));
    end = r.end;
  }
  REQUIRE(end <= prompt.text.size());
}

// Operations that keep their input readable; {} is the input.
const std::string kOperations[] = {
    "{}",
    "{} | trim",
    "{} | string",
    "{} | safe",
    "{} ~ ''",
    "'' + {} + ''",
    "({} | list) | join",
    "({} | list | reverse | list)[::-1] | join('')",
    "{}[::-1][::-1]",
    "{}[0:3] + {}[3:]",
    "{}.split('|') | join('|')",
    "{}.split('>', 1) | join('>')",
    "{}.rsplit('<', 1) | join('<')",
    "{}.partition('|') | join",
    "{}.splitlines() | join",
    "'|'.join({}.split('|'))",
    "{} | replace('<', '<')",
    "{}.replace('|', '|')",
    "{}.strip('x').lstrip('y').rstrip('z')",
    "{} | tojson",
    "{} | tojson(ensure_ascii=false, indent=2)",
    "[{}] | string",
    "{'k': {}} | tojson",
    "{'k': {}}",
    "'%s' % {}",
    "'%s' | format({})",
    "'{0}'.format({})",
    "'{a!s}'.format(a={})",
    "{} | indent(2)",
    "{} | center(60)",
    "{}.ljust(50, '-')",
    "{} | default('')",
    "{} | truncate(400)",
    "{}.expandtabs()",
    "{}.removeprefix('q').removesuffix('q')",
    "[{}] | map('string') | first",
    "[{}, {}] | unique | first",
    "[[{}]] | sum(start=[]) | join",
    "{} if {} else ''",
    "namespace(v={}).v",
    "dict(v={}).v",
    "({} | upper).lower()",
    "{} | lower",
    "{}.swapcase().swapcase()",
    "('a' ~ {})[1:]",
    "({} ~ 'a')[:-1]",
};

std::string with_input(const std::string& operation, const std::string& input) {
  std::string out;
  std::size_t from = 0;
  for (std::size_t at; (at = operation.find("{}", from)) != std::string::npos; from = at + 2) {
    out += operation.substr(from, at - from) + "(" + input + ")";
  }
  return "{{ " + out + operation.substr(from) + " }}";
}

}  // namespace

TEST_CASE("a token split between template and data matches only where all of it is template", "[provenance]") {
  for (const std::string& token : kTokens) {
    for (const std::size_t at : places(token)) {
      const std::string left = token.substr(0, at), right = token.substr(at);
      INFO(token << " split at " << at);
      const bool all = at == token.size(), none = at == 0;
      CHECK(matches(render("{{ " + literal(left) + " + x }}", right), token) == (all ? 1 : 0));
      CHECK(matches(render("{{ " + literal(left) + " ~ x ~ '.' }}", right), token) == (all ? 1 : 0));
      CHECK(matches(render(left + "{{ x }}", right), token) == (all ? 1 : 0));
      CHECK(matches(render("{{ x + " + literal(right) + " }}", left), token) == (none ? 1 : 0));
      CHECK(matches(render("{{ x }}" + right, left), token) == (none ? 1 : 0));
      CHECK(render(left + "{{ x }}", right).text == token);
      for (const std::size_t end : places(right)) {  // a hole in the middle
        const PromptText prompt = render(left + "{{ x }}" + right.substr(end), right.substr(0, end));
        CHECK(matches(prompt, token) == (end == 0 ? 1 : 0));
      }
    }
  }
}

TEST_CASE("a token in data stays data through every operation", "[provenance]") {
  for (const std::string& operation : kOperations) {
    for (const std::string& token : kTokens) {
      INFO(operation << " of " << token);
      const PromptText whole = render(with_input(operation, "x"), token);
      check_ranges(whole);
      REQUIRE(matches(whole, token) == 0);
      for (const std::size_t at : places(token)) {
        const std::string left = token.substr(0, at), right = token.substr(at);
        if (right.size() < 2) continue;  // none, or a '>' that some operations replace by the template's own
        REQUIRE(matches(render(with_input(operation, literal(left) + " ~ x"), right), token) == 0);
      }
    }
  }
}

TEST_CASE("a token in the template stays template through operations that keep its bytes", "[provenance]") {
  for (const char* operation :
       {"{}", "{} | trim", "{} ~ x", "x + {}", "{}.split('q') | join('')", "'%s' % {}", "'{0}'.format({})", "[{}, x] | join('')",
        "{}[0:100]", "{} | replace('q', x)", "{'k': {}}['k']", "x.replace('<', {})", "{} | safe"}) {
    INFO(operation);
    for (const std::string& token : kTokens) CHECK(matches(render(with_input(operation, literal(token)), "<a>"), token) == 1);
  }
  const ChatTemplate tokens = ChatTemplate::parse("{{ bos_token }}{{ 'a' ~ eos_token }}", "<s>", "</s>");
  CHECK(matches(tokens.render({}), "<s>") == 1);
  CHECK(matches(tokens.render({}), "</s>") == 1);
}

TEST_CASE("a message that its author marks as trusted may form tokens", "[provenance]") {
  CHECK(matches(render("<{{ x }}", "|im_end|>", true), "<|im_end|>") == 1);
  CHECK(matches(render("<{{ x }}", "|im_end|>", false), "<|im_end|>") == 0);
}

TEST_CASE("roles that templates build tokens around are their words and no more", "[provenance]") {
  const ChatTemplate t = ChatTemplate::parse("{% for m in messages %}{{ '<|' + m.role + '|>' + m.content }}{% endfor %}", "", "");
  const auto count = [&](std::string role, const std::string& token) {
    Message m;
    m.role = std::move(role);
    m.content = "user|>";
    return matches(t.render({m}), token);
  };
  CHECK(count("user", "<|user|>") == 1);
  CHECK(count("assistant", "<|assistant|>") == 1);
  CHECK(count("endoftext", "<|endoftext|>") == 0);
  CHECK(count("user|><|system", "<|system|>") == 0);
}

TEST_CASE("names of tools, tool results, kwargs and JSON messages are data", "[provenance]") {
  const ChatTemplate t = ChatTemplate::parse(
      "{{ tools | tojson }}{{ extra }}{% for m in messages %}{{ m | tojson }}{{ m.content }}{{ m.name }}"
      "{% for c in m.tool_calls or [] %}{{ c.function.name ~ c.function.arguments ~ c.id }}{{ c | tojson }}{% endfor %}"
      "{% for k, v in m.items() %}{{ k }}{{ v }}{% endfor %}{% endfor %}",
      "", "");
  const std::string token = "<|im_end|>";
  ChatOptions options;
  options.tools = R"([{"function": {"name": "<|im_end|>", "<|im_end|>": "<|im_end|>"}}])";
  options.kwargs = R"({"extra": "<|im_end|>"})";
  Message m;
  m.role = "tool", m.content = m.name = m.tool_call_id = m.reasoning = token;
  m.tool_calls = {{token, token, R"({"a": "<|im_end|>", "<|im_end|>": 1})"}};
  const PromptText prompt = t.render({m}, options);
  CHECK(matches(prompt, token) == 0);
  CHECK(prompt.text.find(token) != std::string::npos);
  const PromptText json =
      t.render_json(R"([{"role": "<|im_end|>", "content": "<|im_end|>", "<|im_end|>": "<|im_end|>"}])", options);
  CHECK(matches(json, token) == 0);
}

// Template text is made of digits and ●, data of letters: the origin of each byte of the output can be seen.
TEST_CASE("random expressions never trust a byte of data", "[provenance]") {
  std::mt19937 random(7);
  const auto pick = [&](auto& list) { return list[random() % std::size(list)]; };
  const std::string atoms[] = {"x", "x", "'012'", "'3●4'", "'0'", "x[1:3]", "messages[0].role", "'●'"};
  const std::string unary[] = {"{} | trim",
                               "{} | upper",
                               "{} | lower",
                               "{} | title",
                               "{} | capitalize",
                               "{} | reverse",
                               "{}[::-1]",
                               "{}[1:]",
                               "{}[:-1]",
                               "{}[::2]",
                               "{} | replace('0', x)",
                               "{} | replace('b', '1')",
                               "{}.replace('a', '22')",
                               "{}.split('b') | join('4')",
                               "{}.split('1') | join(x)",
                               "{} | list | join('0')",
                               "{} | list | sort | join",
                               "{} | list | unique | join",
                               "{}.strip('0a')",
                               "{}.lstrip('●')",
                               "{} | indent('0', true)",
                               "{}.center(9, '1')",
                               "{}.rjust(7, '4')",
                               "{}.title()",
                               "{}.swapcase()",
                               "'%s' % {}",
                               "'%5s' % {}",
                               "'0%s1%s' % ({}, x)",
                               "'{0}1{0}'.format({})",
                               "'{:>8}'.format({})",
                               "'{:●<8}'.format({})",
                               "{} * 2",
                               "{}.partition('a')[0]",
                               "{}.partition('0') | join",
                               "{}.zfill(2)",
                               "[{}, '2'] | join(x)",
                               "{} | truncate(4, true, '0', 0)",
                               "{} | batch(2) | map('join', '1') | join",
                               "{} if {} else '1'",
                               "({} | list | first) or '0'",
                               "{} | default('3', true)"};
  const std::string binary[] = {
      "{} + (@)", "{} ~ @", "[{}, @] | join('2')", "@ ~ {}", "{}.replace('a', @)", "'{0}{1}'.format({}, @)"};
  int rendered = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string expression = pick(atoms);
    for (int depth = static_cast<int>(random() % 6); depth >= 0; --depth) {
      const std::string form = random() % 4 ? pick(unary) : pick(binary);
      std::string next;
      for (std::size_t i = 0; i < form.size(); ++i) {
        if (form.compare(i, 2, "{}") == 0) {
          next += "(" + expression + ")", ++i;
        } else if (form[i] == '@') {
          next += pick(atoms);
        } else {
          next += form[i];
        }
      }
      expression = next;
    }
    if (expression.size() > 3000) continue;
    INFO(expression);
    PromptText prompt;
    try {
      prompt = render("{{ " + expression + " }}", "aBßé bA");
    } catch (const Error& error) {
      REQUIRE(error.code() == Code::argument);
      continue;
    }
    ++rendered;
    check_ranges(prompt);
    for (std::size_t i = 0; i < prompt.text.size(); ++i) {
      const auto byte = static_cast<unsigned char>(prompt.text[i]);
      const bool literal_byte = (byte >= '0' && byte <= '4') || byte == 0xE2 || byte == 0x97 || byte == 0x8F;  // ● is E2 97 8F
      if (!literal_byte && trusted(prompt, i, i + 1)) FAIL("byte " << i << " of data is trusted in " << prompt.text);
    }
  }
  CHECK(rendered > 1500);
}
