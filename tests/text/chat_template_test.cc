// Prompts of whole conversations: the project's own model, DeepSeek-V3.1 in both modes, and what the options do.
#include <thread>

#include "dsv31/chat.h"
#include "tests/catch.h"
#include "tests/text/chat_cases.h"

using namespace dsv31;

namespace {

const std::string kBos = "<｜begin▁of▁sentence｜>", kEos = "<｜end▁of▁sentence｜>";

ChatTemplate v31() { return ChatTemplate::parse(text_test::read_file(DSV31_TEST_DATA "/chat/deepseek_v31.jinja"), kBos, kEos); }

ChatTemplate small(std::string_view source) { return ChatTemplate::parse(source, "<s>", "</s>"); }

Message said(std::string role, std::string content) {
  Message m;
  m.role = std::move(role);
  m.content = std::move(content);
  return m;
}

const char kWeatherTool[] =
    R"([{"type": "function", "function": {"name": "get_weather", "description": "Get the weather.",)"
    R"( "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}])";

const std::string kToolText =
    "\n\n## Tools\nYou have access to the following tools:\n\n"
    "### get_weather\nDescription: Get the weather.\n\n"
    "Parameters: {\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\"}}, \"required\": [\"city\"]}\n\n"
    "IMPORTANT: ALWAYS adhere to this exact format for tool use:\n"
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>tool_call_name<｜tool▁sep｜>tool_call_arguments<｜tool▁call▁end｜>"
    "{{additional_tool_calls}}<｜tool▁calls▁end｜>\n\nWhere:\n"
    "- `tool_call_name` must be an exact match to one of the available tools\n"
    "- `tool_call_arguments` must be valid JSON that strictly follows the tool's Parameters Schema\n"
    "- For multiple tool calls, chain them directly without separators or spaces\n";

}  // namespace

TEST_CASE("the project's own model gets the prompts that jinja2 makes", "[chat]") {
  const std::string source = text_test::read_file(DSV31_TEST_DATA "/chat/dsv31_tiny.jinja");
  const io::Json rows = io::parse_json(text_test::read_file(DSV31_TEST_DATA "/chat/templates.json"), "templates.json");
  REQUIRE(rows.as_array().size() == 8);
  for (const io::Json& row : rows.as_array()) CHECK(text_test::render_row(source, row) == "ok: " + row.get_string("prompt"));
}

TEST_CASE("V3.1 keeps answers and drops thoughts of the past in both modes", "[chat]") {
  const std::vector<Message> messages = {said("system", "You are a helpful assistant"), said("user", "Who are you?"),
                                         said("assistant", "<think>Hmm</think>I am DeepSeek"), said("user", "1+1=?")};
  const std::string history =
      "<｜begin▁of▁sentence｜>You are a helpful assistant<｜User｜>Who are you?"
      "<｜Assistant｜></think>I am DeepSeek<｜end▁of▁sentence｜><｜User｜>1+1=?";
  CHECK(v31().render(messages, {.thinking = true}).text == history + "<｜Assistant｜><think>");
  CHECK(v31().render(messages, {.thinking = false}).text == history + "<｜Assistant｜></think>");
  CHECK(v31().render(messages).text == history + "<｜Assistant｜></think>");
  CHECK(v31().render(messages, {.add_generation_prompt = false}).text == history);
}

TEST_CASE("V3.1 cuts a stored answer at its first closing tag", "[chat]") {
  const std::vector<Message> messages = {said("user", "q"), said("assistant", "a</think>b</think>c"), said("user", "r")};
  CHECK(v31().render(messages).text ==
        "<｜begin▁of▁sentence｜><｜User｜>q<｜Assistant｜></think>b</think>c<｜end▁of▁sentence｜><｜User｜>r<｜Assistant｜></"
        "think>");
}

TEST_CASE("V3.1 joins several system messages with a blank line", "[chat]") {
  const std::vector<Message> messages = {said("system", "A"), said("system", "B"), said("user", "q")};
  CHECK(v31().render(messages).text == "<｜begin▁of▁sentence｜>A\n\nB<｜User｜>q<｜Assistant｜></think>");
}

TEST_CASE("V3.1 lists tools after the system text, without thinking only", "[chat]") {
  const std::vector<Message> messages = {said("system", "Be brief."), said("user", "Rain?")};
  CHECK(v31().render(messages, {.tools = kWeatherTool}).text ==
        "<｜begin▁of▁sentence｜>Be brief." + kToolText + "<｜User｜>Rain?<｜Assistant｜></think>");
  CHECK(v31().render(messages, {.thinking = true, .tools = kWeatherTool}).text ==
        "<｜begin▁of▁sentence｜>Be brief.<｜User｜>Rain?<｜Assistant｜><think>");
  CHECK(v31().render({said("user", "Rain?")}, {.tools = kWeatherTool}).text ==
        "<｜begin▁of▁sentence｜>" + kToolText + "<｜User｜>Rain?<｜Assistant｜></think>");
}

TEST_CASE("V3.1 inlines the arguments of a call as the model wrote them", "[chat]") {
  Message calls = said("assistant", "I will look.");
  calls.tool_calls = {{"1", "get_weather", R"({"city":"Paris",  "n":1.50})"}, {"2", "get_weather", R"({"city": "Rome"})"}};
  Message one = said("tool", "clear"), two = said("tool", "rain");
  one.tool_call_id = "1", two.tool_call_id = "2";
  std::vector<Message> messages = {said("user", "Paris and Rome?"), calls, one, two};
  const std::string called = "<｜begin▁of▁sentence｜>" + kToolText +
                             "<｜User｜>Paris and Rome?<｜Assistant｜></think>I will look.<｜tool▁calls▁begin｜>"
                             "<｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\":\"Paris\",  \"n\":1.50}<｜tool▁call▁end｜>"
                             "<｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": "
                             "\"Rome\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>"
                             "<｜tool▁output▁begin｜>clear<｜tool▁output▁end｜><｜tool▁output▁begin｜>rain<｜tool▁output▁end｜>";
  CHECK(v31().render(messages, {.tools = kWeatherTool}).text == called);  // generation goes on right here
  messages.push_back(said("assistant", "Clear, rain."));
  messages.push_back(said("user", "Thanks"));
  CHECK(v31().render(messages, {.tools = kWeatherTool}).text ==
        called + "Clear, rain.<｜end▁of▁sentence｜><｜User｜>Thanks<｜Assistant｜></think>");
}

TEST_CASE("V3.1 continues an assistant prefix in both modes", "[chat]") {
  const char messages[] = R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "Sure", "prefix": true}])";
  CHECK(v31().render_json(messages, {.thinking = true}).text == "<｜begin▁of▁sentence｜><｜User｜>q<｜Assistant｜><think>Sure");
  CHECK(v31().render_json(messages).text == "<｜begin▁of▁sentence｜><｜User｜>q<｜Assistant｜></think>Sure");
}

TEST_CASE("arguments are an object to templates that expect one and a string to those that add it", "[chat]") {
  Message call = said("assistant", "");
  call.tool_calls = {{"id", "f", R"({"b":1, "a":[true]})"}};
  const auto shown = [&](const char* expression) {
    return small(std::string("{% set a = messages[0].tool_calls[0].function.arguments %}{{ ") + expression + " }}")
        .render({call})
        .text;
  };
  CHECK(shown("a | tojson") == R"({"b": 1, "a": [true]})");
  CHECK(shown("a.b") == "1");
  CHECK(shown("a.items() | list | length") == "2");
  CHECK(shown("'<' + a + '>'") == R"(<{"b":1, "a":[true]}>)");
  CHECK(shown("a ~ ''") == R"({"b":1, "a":[true]})");
  CHECK(shown("a") == R"({"b":1, "a":[true]})");
  CHECK(shown("a if a is string else a | tojson") == R"({"b": 1, "a": [true]})");
  call.tool_calls[0].arguments.clear();
  CHECK(shown("a | tojson") == "{}");
}

TEST_CASE("a message is the dict that OpenAI's API has", "[chat]") {
  Message m = said("assistant", "text");
  m.reasoning = "why";
  m.tool_calls = {{"c1", "f", "{}"}};
  Message result = said("tool", "r");
  result.tool_call_id = "c1";
  result.name = "f";
  CHECK(
      small("{{ messages | tojson }}").render({m, result}).text ==
      R"([{"role": "assistant", "content": "text", "reasoning_content": "why", "tool_calls": [{"id": "c1", "type": "function", )"
      R"("function": {"name": "f", "arguments": {}}}]}, {"role": "tool", "content": "r", "tool_call_id": "c1", "name": "f"}])");
  CHECK(small("{{ messages[0].tool_calls is defined }}{{ messages[0].name is defined }}").render({said("user", "x")}).text ==
        "FalseFalse");
}

TEST_CASE("options become the variables that templates read", "[chat]") {
  const ChatTemplate t = small(
      "{{ tools is none }},{{ documents is none }},{{ add_generation_prompt }},{{ thinking is defined }},{{ enable_thinking is "
      "defined }},"
      "{{ extra | default('-') }},{{ strftime_now('%d %b %Y %H:%M') }},{{ bos_token }}{{ eos_token }}");
  CHECK(t.render({}, {.now = 1'753'531'262}).text == "True,True,True,False,False,-,26 Jul 2025 12:01,<s></s>");
  CHECK(t.render({}, {.add_generation_prompt = false, .thinking = false, .kwargs = R"({"extra": [1]})", .now = 1}).text ==
        "True,True,False,True,True,[1],01 Jan 1970 00:00,<s></s>");
  CHECK(t.render({}, {.tools = "[]", .kwargs = R"({"documents": []})", .now = -1}).text ==
        "False,False,True,False,False,-,31 Dec 1969 23:59,<s></s>");
  CHECK(small("{{ strftime_now('%Y') | int > 2024 }}").render({}).text == "True");  // now = 0: the clock
}

TEST_CASE("a thinking switch is a read of the variable", "[chat]") {
  CHECK(v31().has_thinking_switch());
  CHECK(small("{% if enable_thinking is defined %}x{% endif %}").has_thinking_switch());
  CHECK_FALSE(small("{# thinking #}thinking{{ messages[0].thinking }}{{ 'thinking' }}").has_thinking_switch());
  CHECK_FALSE(small("{% set thinking = true %}").has_thinking_switch());
  CHECK(small(" {{ 1 }}\r\n").source() == " {{ 1 }}\r\n");
}

TEST_CASE("one template renders in several threads at once", "[chat]") {
  const ChatTemplate t = v31();
  const std::vector<Message> messages = {said("system", "A"), said("user", "q"), said("assistant", "x</think>y"),
                                         said("user", "r")};
  const std::string alone = t.render(messages, {.tools = kWeatherTool}).text;
  std::vector<std::string> texts(4);
  std::vector<std::thread> threads;
  for (std::string& text : texts) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) text = t.render(messages, {.tools = kWeatherTool}).text;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) CHECK(text == alone);
}
