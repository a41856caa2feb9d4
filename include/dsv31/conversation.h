// Conversations: messages in, answers out, taken apart into reasoning, content and tool calls while they stream.
//
//   dsv31::Conversation talk(model);
//   talk.add({.role = "user", .content = "What is 17 + 25?"});
//   auto answer = talk.answer({.mode = dsv31::Mode::thinking}, [](const dsv31::AnswerEvent& e) {
//     if (e.kind == dsv31::AnswerEvent::Kind::content) std::cout << e.text;
//     return true;
//   });
//
// Sampled tokens are the truth. An answer is never rendered or tokenised again: what the model wrote stays in the timeline as it
// wrote it. Only its thought goes away, once a later turn's format says so: the timeline returns to the branch point at the start
// of the assistant's turn and the tokens after </think> are appended again. So a turn computes the new messages and the answers
// whose thought was dropped, whatever the mode of each turn; CacheReport counts it.
//
// Bytes of messages never form control tokens, unless Message::trusted. A conversation is used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsv31/chat.h"
#include "dsv31/error.h"
#include "dsv31/export.h"
#include "dsv31/model.h"
#include "dsv31/session.h"
#include "dsv31/tokenizer.h"

namespace dsv31::inline v1 {

// How prompts are written and answers read. The built-in formats need no template; they are byte for byte DeepSeek's own.
enum class ChatFormat {
  detect,         // the model's own template; without one, or where it has no place for the tools given, by the vocabulary
  own_template,   // the model's own template; how tool calls are written is found in its text
  deepseek_v2,    // V2, V2-Lite, V2.5 by name only: its turns are marked by plain text, "User: " and "Assistant:"
  deepseek_v3,    // V3, V3-0324: no thinking
  deepseek_r1,    // thinks always; Mode::fast opens and closes an empty thought
  deepseek_v3_1,  // V3.1, V3.1-Terminus, V3.2-Exp: a mode per turn
  deepseek_v3_2,  // V3.2: a mode per turn, tool calls in DSML
};
DSV31_API std::string_view to_string(ChatFormat format) noexcept;

// The format that `detect` stands for. Throws not_found where the model has no template and its vocabulary has no known markers.
DSV31_API ChatFormat detect_chat_format(const Model& model);

// The prompt of a built-in format. Content of messages is untrusted, markers are trusted. ChatOptions::thinking chooses the mode;
// kwargs may hold `response_format` (V3.2), the rest is refused. Throws argument (a role, a tool call's arguments), unsupported
// (tools in V2, V3 and R1, which have no text for them; own_template and detect).
DSV31_API PromptText render_chat(ChatFormat format, const std::vector<Message>& messages, const ChatOptions& options = {});

// User content of the forms that DeepSeek recommends for R1. Text only: pass the result as Message::content.
// A question about a file.
DSV31_API std::string file_prompt(std::string_view file_name, std::string_view file_content, std::string_view question);

enum class Mode { fast, thinking };

// A piece of an answer, in the order in which the model wrote it. Texts are whole characters. Only what may still turn into a
// marker is held back. Control tokens never appear.
struct AnswerEvent {
  enum class Kind {
    reasoning,   // text of the thought
    content,     // text of the answer
    call_begin,  // text: the function's name
    arguments,   // text: the next piece of the JSON text of the arguments
    call_end,    // the call is complete: its arguments are a JSON object
    malformed,   // no call after all: reason says why, text is all that the model wrote for it; withdraws the call that began
  };
  Kind kind = Kind::content;
  std::string_view text{};
  std::string_view reason{};
  std::size_t call = 0;  // index of the call in this answer, the malformed ones counted too
};

struct AnswerOptions {
  Mode mode = Mode::fast;
  // Tokens of the thought at most; then </think> is put into the timeline and the answer goes on. -1: no bound; 0: no thought.
  std::int64_t thinking_budget = -1;
  // max_tokens counts thought and answer together. Stop strings are looked for in the content alone. special_in_text, logprobs
  // and ignore_end_of_generation have no meaning here.
  GenerateOptions generate{};
  Progress progress{};  // Stage::prefill of the prompt
};

// What a turn cost, before its first sampled token.
struct CacheReport {
  std::int64_t reused_tokens = 0;    // of the prompt, found in the timeline
  std::int64_t computed_tokens = 0;  // of the prompt, computed now; together they are the prompt
  // Of the reused ones, those that a fresh conversation would have computed otherwise: all from the first one on that was added
  // under another attention window with other keys in sight. 0 where the modes have the same window.
  std::int64_t other_window_tokens = 0;
  // Where the prompt parted from the timeline, when the timeline held more tokens there.
  struct Miss {
    std::int64_t token = 0;        // position of the first token that differs
    std::size_t message = 0;       // index of the message it belongs to
    bool thought_dropped = false;  // expected: an earlier answer lost its thought here
  };
  std::optional<Miss> miss{};
  // True where the template changed or moved answers, so that the whole conversation was rendered from text and compared.
  bool rerendered = false;
};

struct MalformedCall {
  std::string reason, text;
};

struct AnswerResult {
  std::string reasoning, content;
  std::vector<ToolCall> tool_calls;  // ids are made up: "call_0", "call_1", ... through the conversation
  std::vector<MalformedCall> malformed;
  Finish finish = Finish::length;     // stop_string: one of generate.stop in the content
  std::int64_t reasoning_tokens = 0;  // sampled, <think> and </think> not counted
  bool budget_reached = false;        // the thought was closed by thinking_budget
  std::vector<Token> tokens;          // of the whole answer as it stands in the timeline
  CacheReport cache;
  std::int64_t steps = 0;  // of the model, as in GenerateResult
  DraftStats drafts;
};

struct ConversationOptions {
  ChatFormat format = ChatFormat::detect;
  std::string tools{};   // JSON array of tools in OpenAI's form
  std::string kwargs{};  // JSON object of further template variables
  std::int64_t now = 0;  // seconds since 1970 that templates see, the same in all turns; 0: the clock at construction
  ComputeOptions compute{};
  // What the tokens of a turn attend to, by its mode: those of the prompt that are new, and those of the answer with its thought.
  // Earlier tokens stay as they were computed, so a change of mode costs the new tokens and nothing else, either way; what a turn
  // computes then depends on the modes of the turns before it too, and CacheReport::other_window_tokens counts that.
  //
  //   dsv31::Conversation talk(model, {.thinking_window = {.window = 4096, .sinks = 4}});  // long thoughts at a bounded cost
  //
  AttentionWindow fast_window{}, thinking_window{};
  // Computes those tokens again instead of reusing them: a turn then depends on its prompt and mode alone.
  bool recompute_other_window = false;
};

class DSV31_API Conversation {
 public:
  // Throws not_found, unsupported and argument as the format does, and what Session's constructor and set_attention_window throw.
  explicit Conversation(const Model& model, const ConversationOptions& options = {});
  ~Conversation();
  Conversation(Conversation&&) noexcept;
  Conversation& operator=(Conversation&&) noexcept;

  // Adds a message of any role. An assistant's message that was not sampled here is rendered as text.
  void add(Message message);

  // Answers the messages so far and adds the answer. The callback runs on this thread; returning false stops (Finish::stopped).
  // Throws what rendering and Session::append throw (limit: the prompt does not fit; cancelled: during the prompt); no message is
  // added then. An answer that was cut short is a message like any other.
  AnswerResult answer(const AnswerOptions& options = {}, const std::function<bool(const AnswerEvent&)>& callback = {});

  // Sampled answers are among them, with reasoning and tool calls.
  const std::vector<Message>& messages() const noexcept;
  // Keeps the first n messages: to edit, or to have an answer written anew. Throws argument when n > messages().size().
  void truncate(std::size_t n);

  ChatFormat format() const noexcept;  // never detect
  const Session& session() const noexcept;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace dsv31::inline v1
