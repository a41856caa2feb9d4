// Histories of sampled answers under templates of other models: each prompt extends the one before and its answer.
#include "lib/text/format_history.h"

#include "dsv31/chat.h"
#include "lib/text/format_table.h"
#include "tests/catch.h"
#include "tests/text/format_stream.h"

using namespace dsv31;
using namespace dsv31::test;
using text::PromptLayout;
using text::Turn;

namespace {

constexpr const char* kChatMl =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{% if "
    "add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
constexpr const char* kLlama3 =
    "{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' + m['content'] | trim "
    "+ '<|eot_id|>' }}{% endfor %}{% if "
    "add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}";
constexpr const char* kGemma =
    "{{ bos_token }}{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must "
    "alternate') }}{% endif %}{{ '<start_of_turn>' + ('model' if "
    "m.role == 'assistant' else m.role) + '\n' + m.content | trim + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt "
    "%}{{ '<start_of_turn>model\n' }}{% endif %}";
// Drops thoughts before the last user message, as Qwen3 does.
constexpr const char* kQwen3 =
    "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif "
    "%}{% endfor %}{% for m in messages %}{{ '<|im_start|>' + m.role + "
    "'\n' }}{% if m.role == 'assistant' and loop.index0 > ns.last and m.reasoning_content %}{{ '<think>\n' + "
    "m.reasoning_content.strip('\n') + '\n</think>\n\n' }}{% endif %}{{ m.content + "
    "'<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

Turn said(std::string role, std::string content) {
  Turn t;
  t.message = {.role = std::move(role), .content = std::move(content)};
  return t;
}

Turn sampled(std::string content, std::vector<Token> tokens) {
  Turn t = said("assistant", std::move(content));
  t.sampled = true;
  t.tokens = std::move(tokens);
  return t;
}

// The layout on one line: text as it is, tokens as [turn:first].
std::string line(const PromptLayout& l) {
  std::string s;
  for (const auto& p : l.pieces) {
    if (p.is_text) {
      s += p.text.text;
      continue;
    }
    s += '[';
    s += std::to_string(p.turn);
    s += ':';
    s += std::to_string(p.first);
    s += ']';
  }
  return s;
}

text::Render renderer(const char* source) {
  return [t = ChatTemplate::parse(source, "<bos>", "<eos>")](const std::vector<Message>& m) { return t.render(m); };
}

}  // namespace

TEST_CASE("ChatML, llama3 and gemma: sampled answers stand as their tokens") {
  const std::vector<Turn> talk = {said("user", "a"), sampled(" b ", {7}), said("user", "c"), sampled("", {}), said("user", "d")};
  CHECK(line(text::lay_out(talk, renderer(kChatMl))) ==
        "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[1:0]<|im_end|>\n<|im_start|>user\nc<|im_end|>\n<|im_start|>"
        "assistant\n[3:0]<|im_end|>\n<|im_start|>user\nd<|im_end|>\n"
        "<|im_start|>assistant\n");
  CHECK(line(text::lay_out(talk, renderer(kGemma))) ==
        "<bos><start_of_turn>user\na<end_of_turn>\n<start_of_turn>model\n[1:0]<end_of_turn>\n<start_of_turn>user\nc<end_of_turn>"
        "\n<start_of_turn>model\n[3:0]<end_of_turn>\n"
        "<start_of_turn>user\nd<end_of_turn>\n<start_of_turn>model\n");
  for (const char* source : {kChatMl, kLlama3, kGemma}) {
    std::vector<Turn> turns;
    std::string before;
    for (const Turn& t : talk) {
      turns.push_back(t);
      if (t.sampled) continue;
      const PromptLayout l = text::lay_out(turns, renderer(source));
      CHECK(!l.rerendered);
      CHECK(line(l).starts_with(before));
      before = line(l) + "[" + std::to_string(turns.size()) + ":0]";
    }
  }
}

TEST_CASE("a thought stays as sampled while the template keeps it, and goes with it") {
  Turn thinker = sampled("b", {1, 2, 3, 4});
  thinker.has_thought = thinker.opens_thought = true;
  thinker.content_begin = 3;
  thinker.message.reasoning = "r";
  std::vector<Turn> turns = {said("user", "a"), thinker, said("tool", "t")};
  CHECK(line(text::lay_out(turns, renderer(kQwen3))) ==
        "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[1:0]<|im_end|>\n<|im_start|>tool\nt<|im_end|>\n<|im_start|>"
        "assistant\n");
  turns.push_back(said("user", "c"));
  CHECK(line(text::lay_out(turns, renderer(kQwen3))) ==
        "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[1:3]<|im_end|>\n<|im_start|>tool\nt<|im_end|>\n<|im_start|>"
        "user\nc<|im_end|>\n<|im_start|>assistant\n");
}

TEST_CASE("V3.2 keeps the thought of a tool loop and drops it at the next user message") {
  Turn thinker = sampled("b", {1, 2, 3, 4});
  thinker.has_thought = true;
  thinker.content_begin = 2;
  thinker.message.reasoning = "r";
  thinker.message.tool_calls = {{"call_0", "f", "{}"}};
  const text::Render render = [](const std::vector<Message>& m) {
    return render_chat(ChatFormat::deepseek_v3_2, m, {.thinking = true});
  };
  std::vector<Turn> turns = {said("user", "a"), thinker, said("tool", "t")};
  CHECK(line(text::lay_out(turns, render)) ==
        "<｜begin▁of▁sentence｜><｜User｜>a<｜Assistant｜><think>[1:0]<｜end▁of▁sentence｜>\n\n<function_results>\n<result>t</"
        "result>\n</function_results>\n\n<think>");
  turns.push_back(said("user", "c"));
  CHECK(line(text::lay_out(turns, render)) ==
        "<｜begin▁of▁sentence｜><｜User｜>a<｜Assistant｜></think>[1:2]<｜end▁of▁sentence｜>\n\n<function_results>\n<result>t</"
        "result>\n</function_results>\n\n</think><｜User｜>c<｜Assistant｜><think>");
}

TEST_CASE("a template that changes or drops answers is rendered from text, and says so") {
  const std::vector<Turn> talk = {said("user", "a"), sampled("Answer", {7}), said("user", "c")};
  const PromptLayout upper = text::lay_out(talk, renderer("{% for m in messages %}{{ m.content | upper }}\n{% endfor %}"));
  CHECK(upper.rerendered);
  CHECK(line(upper) == "A\nANSWER\nC\n");
  const PromptLayout last = text::lay_out(talk, renderer("{{ messages[-1].content }}"));
  CHECK(last.rerendered);
  CHECK(line(last) == "c");
  const PromptLayout twice = text::lay_out(talk, renderer("{% for m in messages %}{{ m.content + m.content }}{% endfor %}"));
  CHECK(twice.rerendered);
}

TEST_CASE("a message may hold anything, the placeholders' own characters too") {
  const std::string odd =
      "\xEE\x80\x80"
      "c1"
      "\xEE\x80\x81";
  const std::vector<Turn> talk = {said("user", odd), sampled("b", {7}), said("user", odd)};
  CHECK(line(text::lay_out(talk, renderer("{% for m in messages %}<{{ m.content }}>{% endfor %}"))) ==
        "<" + odd + "><[1:0]><" + odd + ">");
}

TEST_CASE("formats are found by the text of a template and by the vocabulary, and a prompt shows an open thought") {
  CHECK(text::format_of_template("{{ '<｜tool▁calls▁begin｜>' }} ```json </think>") == ChatFormat::deepseek_r1);
  CHECK(text::format_of_template("{{ '<｜tool▁calls▁begin｜>' }} ```json") == ChatFormat::deepseek_v3);
  CHECK(text::format_of_template("{{ '<｜tool▁calls▁begin｜>' }} </think>") == ChatFormat::deepseek_v3_1);
  CHECK(text::format_of_template("<｜DSML｜invoke") == ChatFormat::deepseek_v3_2);
  CHECK(text::format_of_template(kChatMl) == ChatFormat::detect);
  CHECK(text::syntax_of_template("<tool_call>", bare()).calls == text::CallSyntax::hermes);
  CHECK(!text::syntax_of_template("<tool_call>", bare()).thoughts);
  CHECK(text::syntax_of_template("<tool_call></think>", bare()).thoughts);
  CHECK(text::syntax_of_template(kChatMl, bare()).calls == text::CallSyntax::none);
  CHECK(text::format_of_vocabulary(marked()) == ChatFormat::deepseek_v3_2);
  CHECK(text::format_of_vocabulary(tiny()) == ChatFormat::deepseek_v3_1);
  CHECK(text::format_of_vocabulary(bare()) == ChatFormat::detect);
  const std::vector<Message> q = {{.role = "user", .content = "<think>"}};
  CHECK(text::ends_in_thought(render_chat(ChatFormat::deepseek_v3_1, q, {.thinking = true})));
  CHECK(!text::ends_in_thought(render_chat(ChatFormat::deepseek_v3_1, q, {.thinking = false})));
  CHECK(text::ends_in_thought(render_chat(ChatFormat::deepseek_r1, q)));
  CHECK(!text::ends_in_thought(render_chat(ChatFormat::deepseek_r1, q, {.thinking = false})));
  CHECK(!text::ends_in_thought(renderer("{% for m in messages %}{{ m.content }}{% endfor %}")(q)));
}
