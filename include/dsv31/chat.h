// Chat templates: messages in, prompt out, rendered by an own interpreter of the Jinja subset that models ship.
//
// A ChatTemplate is immutable; render may be called from any thread. A template is untrusted: its depth, steps, output and time
// are limited (Code::limit, Code::timeout), and it sees nothing but the values passed to it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsv31/error.h"
#include "dsv31/export.h"
#include "dsv31/tokenizer.h"

namespace dsv31::inline v1 {

struct ToolCall {
  std::string id{}, name{};
  std::string arguments{};  // JSON text of an object; templates see the object, or this text where they want a string
};

struct Message {
  std::string role{};  // "system", "user", "assistant", "tool", or whatever the template knows
  std::string content{};
  std::string reasoning{};  // reasoning_content of an assistant message; empty: absent
  std::vector<ToolCall> tool_calls{};
  std::string tool_call_id{}, name{};
  bool trusted = false;  // its bytes may form control tokens
};

struct ChatOptions {
  bool add_generation_prompt = true;
  std::optional<bool> thinking{};  // sets both `thinking` and `enable_thinking`, the names that templates use
  std::string tools{};             // JSON array of tools in OpenAI's form; empty: none
  std::string kwargs{};            // JSON object of further template variables; reserved names are refused (argument)
  std::int64_t now = 0;            // seconds since 1970 UTC for strftime_now; 0: the system clock
};

struct ChatLimits {
  int depth = 128;                 // nesting of blocks, expressions and calls
  std::int64_t fuel = 20'000'000;  // evaluation steps
  std::size_t output_bytes = 64u << 20;
  int milliseconds = 5'000;
};

class DSV31_API ChatTemplate {
 public:
  // `source` is Jinja text; bos and eos are the texts of those tokens. Throws format (line:column) or unsupported (the
  // construct).
  static ChatTemplate parse(std::string_view source, std::string bos_token, std::string eos_token, ChatLimits limits = {});

  PromptText render(const std::vector<Message>& messages, const ChatOptions& options = {}) const;
  // messages as JSON text: an array in OpenAI's form, passed to the template as it stands. A template's raise_exception is
  // argument.
  PromptText render_json(std::string_view messages, const ChatOptions& options = {}) const;

  const std::string& source() const noexcept;
  // True where the template reads `thinking` or `enable_thinking`.
  bool has_thinking_switch() const noexcept;

  struct Impl;
  explicit ChatTemplate(std::shared_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace dsv31::inline v1
