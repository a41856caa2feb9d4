// Hostile templates and messages end in a typed error within their limits; a twin beside each case renders.
#include <pthread.h>

#include "dsv31/chat.h"
#include "tests/catch.h"
#include "tests/text/chat_cases.h"

using namespace dsv31;

namespace {

struct Outcome {
  int code = 0;  // 0: rendered
  std::string text;
};

const std::vector<Message> kHello = [] {
  Message m;
  m.role = "user";
  m.content = "hello";
  return std::vector<Message>{m};
}();

template <typename Action>
Outcome outcome(Action action) {
  try {
    return {0, action()};
  } catch (const Error& error) {
    return {static_cast<int>(error.code()), error.what()};
  }
}

// The time limit is far off unless a case is about it: a busy machine must not change the outcome of the others.
Outcome render(std::string_view source, const ChatOptions& options = {}, const ChatLimits& limits = {.milliseconds = 600'000}) {
  return outcome([&] { return ChatTemplate::parse(source, "<s>", "</s>", limits).render(kHello, options).text; });
}

Outcome render_json(std::string_view messages,
                    std::string_view source = "{% for m in messages %}{{ m.role + m.content }}{% endfor %}") {
  return outcome([&] { return ChatTemplate::parse(source, "", "").render_json(messages).text; });
}

constexpr int kFormat = static_cast<int>(Code::format), kLimit = static_cast<int>(Code::limit),
              kTimeout = static_cast<int>(Code::timeout), kArgument = static_cast<int>(Code::argument),
              kUnsupported = static_cast<int>(Code::unsupported);

std::string repeat(std::string_view s, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += s;
  return out;
}

// Runs the action on a thread with a small stack.
template <typename Action>
void on_small_stack(std::size_t bytes, Action action) {
  pthread_attr_t attributes;
  REQUIRE(pthread_attr_init(&attributes) == 0);
  REQUIRE(pthread_attr_setstacksize(&attributes, bytes) == 0);
  pthread_t thread;
  const auto run = [](void* a) -> void* {
    (*static_cast<Action*>(a))();
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &attributes, run, &action) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kSmallStack = 4096 * 1024;  // instrumented frames are larger
#else
constexpr std::size_t kSmallStack = 128 * 1024;
#endif

}  // namespace

TEST_CASE("J01: syntax errors and unknown names fail at load with line and column", "[hostile]") {
  const auto fails = [](const char* source, int code, const char* place) {
    INFO(source);
    const Outcome o = outcome([&] { return ChatTemplate::parse(source, "", "").source(); });
    CHECK(o.code == code);
    CHECK(o.text.rfind(std::string("[chat_template] ") + place + ": got ", 0) == 0);
  };
  fails("a\n{% if %}{% endif %}", kFormat, "2:7");
  fails("{{ 1 + }}", kFormat, "1:8");
  fails("{{ 'x }}", kFormat, "1:4");
  fails("a{# b", kFormat, "1:2");
  fails("{% for x in y %}", kFormat, "1:4");
  fails("x\ny {% nonsense %}", kFormat, "2:6");
  fails("{{ 1 | nonsense }}", kFormat, "1:8");
  fails("{{ 1 is nonsense }}", kFormat, "1:9");
  fails("{{ [1, 2 }}", kFormat, "1:10");
  fails("{{ 1 | pprint }}", kUnsupported, "1:8");
  fails("{% include 'a' %}", kUnsupported, "1:4");
  fails("{% import 'a' as b %}", kUnsupported, "1:4");
  fails("{% extends 'a' %}", kUnsupported, "1:4");
  fails("{% block a %}{% endblock %}", kUnsupported, "1:4");
  fails("{% do 1 %}", kUnsupported, "1:4");
  fails("\xff", kFormat, "1:1");
  CHECK(render("{% if 1 %}{{ 'x' | upper }}{% endif %}").text == "X");
}

TEST_CASE("J02: recursion and nesting end at the depth limit", "[hostile]") {
  CHECK(render("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}").code == kLimit);
  CHECK(render("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}").code == kLimit);
  CHECK(render("{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}").code == kLimit);
  CHECK(render("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}").code == kLimit);
  CHECK(render("{% macro m(n) %}{{ m(n - 1) if n else 'end' }}{% endmacro %}{{ m(100) }}").text == "end");
  const auto nested = [](std::string_view open, std::string_view middle, std::string_view close, int n) {
    return render(repeat(open, n) + std::string(middle) + repeat(close, n)).code;
  };
  for (const int n : {200, 100'000}) {
    CHECK(nested("{% if 1 %}", "x", "{% endif %}", n) == kLimit);
    CHECK(nested("{% for x in [1] %}", "x", "{% endfor %}", n) == kLimit);
    CHECK(render("{{ " + repeat("(", n) + "1" + repeat(")", n) + " }}").code == kLimit);
    CHECK(render("{{ " + repeat("[", n) + repeat("]", n) + " }}").code == kLimit);
    CHECK(render("{{ " + repeat("f(", n) + repeat(")", n) + " }}").code == kLimit);
    CHECK(render("{{ " + repeat("x[", n) + "0" + repeat("]", n) + " }}").code == kLimit);
    CHECK(render("{{ " + repeat("1 if 1 else ", n) + "2 }}").code == kLimit);
    CHECK(render("{% set " + repeat("(", n) + "a" + repeat(")", n) + " = 1 %}").code == kLimit);
  }
  CHECK(render("{{ " + repeat("(", 100) + "1" + repeat(")", 100) + " }}").text == "1");
  CHECK(nested("{% if 1 %}", "x", "{% endif %}", 100) == 0);
  // What does not nest has no limit but that of fuel.
  CHECK(render("{{ " + repeat("not ", 10'000) + "1 }}").text == "True");
  CHECK(render("{{ 1" + repeat(" + 1", 10'000) + " }}").text == "10001");
  CHECK(render("{{ " + repeat("-", 10'000) + "1 }}").text == "1");
  CHECK(render("{% if 0 %}" + repeat("{% elif 0 %}", 10'000) + "{% else %}x{% endif %}").text == "x");
}

TEST_CASE("J02: values that nest ever deeper end at the depth limit", "[hostile]") {
  const std::string deeper = "{% set ns = namespace(v=[]) %}{% for i in range(100000) %}{% set ns.v = ";
  CHECK(render(deeper + "[ns.v] %}{% endfor %}").code == kLimit);
  CHECK(render(deeper + "{'a': ns.v} %}{% endfor %}").code == kLimit);
  CHECK(render(deeper + "(ns.v,) %}{% endfor %}").code == kLimit);
  CHECK(render(deeper + "[ns.v].count %}{% endfor %}").code == kLimit);
  CHECK(render(deeper + "cycler(ns.v) %}{% endfor %}").code == kLimit);
  CHECK(render("{% set ns = namespace(v=1) %}{% for i in range(100000) %}{% for x in [ns.v] %}{% set ns.v = loop %}{% endfor "
               "%}{% endfor %}")
            .code == kLimit);
  CHECK(render(deeper + "namespace(v=ns.v) %}{% endfor %}x").text == "x");  // a chain of namespaces is flat
  CHECK(render("{% set ns = namespace() %}{% set ns.ns = ns %}{{ ns.ns.ns is defined }}").text ==
        "True");  // a cycle ends with the render
  CHECK(render("{% set ns = namespace() %}{% set ns.ns = ns %}{{ ns }}").code == kLimit);
}

TEST_CASE("J03: huge results and endless loops end at a limit", "[hostile]") {
  CHECK(render("{{ range(10 ** 12) }}").code == kLimit);
  CHECK(render("{{ range(100000) | length }}").text == "100000");
  CHECK(render("{{ 'x' * 10 ** 10 }}").code == kLimit);
  CHECK(render("{{ [1] * 10 ** 10 }}").code == kLimit);
  CHECK(render("{{ 'ab' * 1000 }}").text.size() == 2000);
  for (const char* huge :
       {"'x' | indent(10 ** 10, true)", "[[1]] | tojson(indent=10 ** 10)", "'x'.center(10 ** 10)", "'x'.zfill(10 ** 10)",
        "'%1000000000s' % 'x'", "'{:>1000000000}'.format('x')", "'\\t'.expandtabs(10 ** 10)", "[1] | batch(10 ** 10, 2) | list",
        "[1] | slice(10 ** 10) | list", "'%.999999d' % 1", "'x' | center(10 ** 10)", "'{:.999999}'.format(1.5)"}) {
    INFO(huge);
    CHECK(render(std::string("{{ ") + huge + " }}").code == kLimit);
  }
  CHECK(render("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}").code == kLimit);
  CHECK(render("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}", {},
               {.fuel = 1LL << 60, .milliseconds = 50})
            .code == kTimeout);
  CHECK(render("{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}").code ==
        kLimit);
  CHECK(render("{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}").code == kLimit);
  CHECK(render("{% set ns = namespace(s='x' * 2000000, l=[]) %}{% for i in range(999) %}{% set ns.l = ns.l + [ns.s ~ i] %}{% "
               "endfor %}")
            .code == kLimit);
  CHECK(render("{% for i in range(1000) %}{{ 'x' * 100000 }}{% endfor %}").code == kLimit);
  CHECK(render("{% for i in range(100) %}0123456789{% endfor %}", {}, {.output_bytes = 1000}).text.size() == 1000);
  CHECK(render("{% for i in range(100) %}0123456789{% endfor %}", {}, {.output_bytes = 999}).code == kLimit);
  CHECK(render("{% set h = 'a' * 400000 %}{{ (h[:200000] ~ 'b') in h }}{{ h.count(h[:200000] ~ 'b') }}").text == "False0");
}

TEST_CASE("J04: a template that reaches for the host finds nothing there", "[hostile]") {
  for (const char* probe : {"''.__class__.__mro__[1].__subclasses__()",
                            "messages.__class__.__init__.__globals__",
                            "cycler.__init__.__globals__.os.popen('id').read()",
                            "range.__self__.__import__('os')",
                            "os.environ",
                            "open('/etc/passwd').read()",
                            "__import__('os')",
                            "self.__init__",
                            "lipsum.__globals__['os']",
                            "namespace.__init__.__globals__",
                            "raise_exception.__globals__.sys",
                            "messages[0].__class__()",
                            "''['__class__']['__mro__']",
                            "('' | attr('__class__')).x",
                            "'{0.__class__.__mro__}'.format('')",
                            "messages.append(1)",
                            "messages[0].update({'a': 1})",
                            "messages[0].clear()",
                            "messages.pop()",
                            "config.items()",
                            "request.x",
                            "get_flashed_messages.x",
                            "url_for.x"}) {
    INFO(probe);
    CHECK(render(std::string("{{ ") + probe + " }}").code == kFormat);
  }
  CHECK(render("{{ messages | length }}").text == "1");
}

TEST_CASE("J05: variables of the caller cannot take the place of the engine's", "[hostile]") {
  for (const char* name : {"messages", "tools", "bos_token", "eos_token", "add_generation_prompt", "raise_exception",
                           "strftime_now", "namespace", "range", "dict", "loop", "caller", "self", "true"}) {
    const Outcome o = render("{{ 1 }}", {.kwargs = std::string("{\"") + name + "\": 1}"});
    CHECK(o.code == kArgument);
    CHECK(o.text.find(std::string("'") + name + "'") != std::string::npos);
  }
  CHECK(render("{{ documents[0] ~ mine }}", {.kwargs = R"({"documents": ["d"], "mine": 2})"}).text == "d2");
  CHECK(render("{{ thinking }}", {.kwargs = R"({"thinking": true})"}).text == "True");
  CHECK(render("{{ thinking }}", {.thinking = false, .kwargs = R"({"thinking": true})"}).code == kArgument);
  CHECK(render("{{ 1 }}", {.kwargs = "[1]"}).code == kArgument);
  CHECK(render("{{ 1 }}", {.kwargs = "{"}).code == kFormat);
  CHECK(render("{{ 1 }}", {.tools = "{}"}).code == kArgument);
  CHECK(render("{{ 1 }}", {.tools = "[" + repeat("[", 100'000)}).code == kLimit);
}

TEST_CASE("J06: bad messages are arguments that the error names", "[hostile]") {
  CHECK(render_json(R"([{"role": "user", "content": "x"}])").text == "userx");
  CHECK(render_json(R"([{"role": "user", "content": null}])").code == kArgument);
  CHECK(render_json(R"([{"role": "user", "content": 5}])").code == kArgument);
  CHECK(render_json(R"([{"role": "user"}])").code == kArgument);
  CHECK(render_json(R"([{"role": 5, "content": "x"}])").text == "[messages[0].role] got integer, expected a string");
  CHECK(render_json(R"([{"content": "x"}])").code == kArgument);
  CHECK(render_json(R"([5])").text == "[messages[0]] got integer, expected an object");
  CHECK(render_json(R"({})").code == kArgument);
  CHECK(render_json(R"([{"role": "user", "content": "x"})").code == kFormat);
  CHECK(render_json(repeat("[", 100'000)).code == kLimit);

  const std::string roles =
      "{% if messages[0].role != 'user' %}{{ raise_exception('Unknown role: ' ~ messages[0].role ~ ', sorry') }}{% endif %}ok";
  CHECK(render_json(R"([{"role": "user"}])", roles).text == "ok");
  const Outcome refused = render_json(R"([{"role": "narrator"}])", roles);
  CHECK(refused.code == kArgument);
  CHECK(refused.text ==
        "[chat_template] 1:54: got messages that the template refuses (Unknown role: ..., sorry), expected those that it takes");
  CHECK(render("{{ raise_exception('x' * 10000) }}").text.size() < 512);

  Message call;
  call.role = "assistant";
  for (const char* arguments : {"{", "[1]", "5", "\"x\"", "{\"a\": 1} x"}) {
    call.tool_calls = {{"1", "f", "{}"}, {"2", "f", arguments}};
    const Outcome o = outcome([&] { return ChatTemplate::parse("{{ messages | tojson }}", "", "").render({call}).text; });
    CHECK(o.code == kArgument);
    CHECK(o.text.rfind("[messages[0].tool_calls[1].arguments] ", 0) == 0);
  }
  call.tool_calls = {{"1", "f", R"({"secret": 1})"}};
  const Outcome o = outcome(
      [&] { return ChatTemplate::parse("{{ messages[0].tool_calls[0].function.arguments + 1 }}", "", "").render({call}).text; });
  CHECK(o.code == kArgument);
  CHECK(o.text.find("secret") == std::string::npos);

  std::vector<Message> many(100'000, kHello[0]);
  CHECK(outcome([&] {
          return ChatTemplate::parse("{% for m in messages %}{{ m.role[0] }}{% endfor %}", "", "").render(many).text;
        }).text.size() == 100'000);
}

TEST_CASE("errors name the template's words and none of the data", "[hostile]") {
  CHECK(render("a\n  {{ messages[0].missing.x }}").text ==
        "[chat_template] 2:25: got no attribute 'missing', expected data that has it");
  CHECK(render("{{ nothing() }}").text == "[chat_template] 1:11: got the undefined variable 'nothing', expected one that is set");
  CHECK(render("{{ {'a': 1}[messages[0].content].x }}").text ==
        "[chat_template] 1:33: got an undefined value, expected an element that exists");
  CHECK(render("{{ messages[0].content + 1 }}").text == "[chat_template] 1:24: got str + int, expected operands that fit");
}

TEST_CASE("every cut and every changed byte of a template gives a prompt or a typed error", "[hostile]") {
  const std::string source = text_test::read_file(DSV31_TEST_DATA "/chat/deepseek_v31.jinja");
  int failed = 0;
  for (std::size_t i = 0; i < source.size(); i += 3) {
    failed += render(source.substr(0, i)).code != 0;
    std::string changed = source;
    changed[i] = "{}%'|(0~"[i / 3 % 8];
    failed += render(changed).code != 0;
  }
  CHECK(failed > 500);
}

TEST_CASE("a hostile template needs no more than a small stack", "[hostile]") {
  std::vector<int> codes;
  const auto run = [&] {
    codes.push_back(render("{{ " + repeat("(", 100'000) + "1" + repeat(")", 100'000) + " }}").code);
    codes.push_back(render("{{ " + repeat("[", 120) + "1" + repeat("]", 120) + " | tojson }}").code);
    codes.push_back(
        render("{{ " + repeat("[", 120) + "1" + repeat("]", 120) + " == " + repeat("[", 120) + "1" + repeat("]", 120) + " }}")
            .code);
    codes.push_back(render("{{ " + repeat("x(-1 or 2 and not 3 < 4 + 5 ~ 6 * ", 200) + "1" + repeat(")", 200) + " }}").code);
    codes.push_back(render("{{ " + repeat("range(1 or 2 and not 3 < 4 + 5 ~ 6 * [", 40) + "1" + repeat("])", 40) + " }}").code);
    codes.push_back(render("{{ " + repeat("x | default(-1 or 2 and ", 60) + "1" + repeat(")", 60) + " }}").code);
    codes.push_back(render("{{ " + repeat("1 is eq(2 or ", 60) + "1" + repeat(")", 60) + " }}").code);
    codes.push_back(render("{{ " + repeat("{'a': ", 120) + "1" + repeat("}", 120) + " }}").code);
    codes.push_back(
        render("{% macro m(n) %}{% for x in [1] %}{% if n %}{{ m(n - 1) }}{% endif %}{% endfor %}{% endmacro %}{{ m(120) }}")
            .code);
    codes.push_back(render("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}").code);
    codes.push_back(render(repeat("{% for x in [1] %}", 120) + repeat("{% endfor %}", 120)).code);
  };
  on_small_stack(kSmallStack, run);
  CHECK(codes == std::vector<int>{kLimit, 0, 0, kLimit, 0, 0, 0, 0, 0, kLimit, 0});
}
