#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <new>

#include "dsv31/chat.h"
#include "lib/io/json.h"
#include "lib/text/chat_messages.h"
#include "lib/text/jinja_machine.h"

namespace dsv31::inline v1 {

using text::jinja::Program;
using text::jinja::Value;
using text::jinja::Variables;

struct ChatTemplate::Impl {
  std::string source, bos_token, eos_token;
  ChatLimits limits;
  Program program;
};

namespace {

// Names that a caller's variables may not take: the inputs, the functions, and what the language itself sets.
constexpr std::string_view kReserved[] = {
    "messages",
    "tools",
    "bos_token",
    "eos_token",
    "add_generation_prompt",
    "raise_exception",
    "strftime_now",
    "namespace",
    "dict",
    "range",
    "lipsum",
    "cycler",
    "joiner",
    "loop",
    "caller",
    "varargs",
    "kwargs",
    "self",
    "true",
    "false",
    "none",
    "True",
    "False",
    "None",
};

std::int64_t now_or_clock(std::int64_t now) {
  if (now != 0) return now;
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void add_kwargs(Variables& variables, const ChatOptions& options) {
  if (options.kwargs.empty()) return;
  const io::Json kwargs = io::parse_json(options.kwargs, "kwargs");
  if (!kwargs.is_object()) throw Error(Code::argument, "kwargs", fmt::format("got {}, expected an object", kwargs.kind()));
  for (const auto& [name, value] : kwargs.as_object()) {
    const auto reserved = std::find(std::begin(kReserved), std::end(kReserved), name);
    if (reserved != std::end(kReserved)) {
      throw Error(Code::argument, "kwargs",
                  fmt::format("got the reserved name '{}', expected names that the template alone uses", *reserved));
    }
    const auto taken = std::find_if(variables.begin(), variables.end(), [&](const auto& v) { return v.first == name; });
    if (taken == variables.end()) {
      variables.emplace_back(name, text::value_of(value, false));
    } else if (name == "documents") {
      taken->second = text::value_of(value, false);
    } else {
      throw Error(Code::argument, "kwargs",
                  fmt::format("got '{}' beside the option thinking, expected one of them", taken->first));
    }
  }
}

PromptText render_value(const ChatTemplate::Impl& impl, Value messages, const ChatOptions& options) {
  Variables variables;
  variables.emplace_back("messages", std::move(messages));
  Value tools;
  if (!options.tools.empty()) {
    const io::Json json = io::parse_json(options.tools, "tools");
    if (!json.is_array()) throw Error(Code::argument, "tools", fmt::format("got {}, expected an array of tools", json.kind()));
    tools = text::value_of(json, false);
  }
  variables.emplace_back("tools", std::move(tools));
  variables.emplace_back("documents", Value());
  variables.emplace_back("add_generation_prompt", Value::boolean(options.add_generation_prompt));
  variables.emplace_back("bos_token", Value::constant(impl.bos_token, true));
  variables.emplace_back("eos_token", Value::constant(impl.eos_token, true));
  if (options.thinking) {
    variables.emplace_back("thinking", Value::boolean(*options.thinking));
    variables.emplace_back("enable_thinking", Value::boolean(*options.thinking));
  }
  add_kwargs(variables, options);

  text::jinja::Machine machine(impl.program, impl.limits, now_or_clock(options.now));
  text::jinja::Text out = machine.run(variables);
  PromptText prompt;
  prompt.trusted = out.trusted_ranges();
  prompt.text = out.take_bytes();
  return prompt;
}

// Memory that runs out while the values are made is an error like any other.
template <typename Action>
auto with_memory(Action action) {
  try {
    return action();
  } catch (const std::bad_alloc&) {
    throw Error(Code::no_memory, "chat_template", "got no memory for the prompt, expected enough");
  }
}

}  // namespace

ChatTemplate ChatTemplate::parse(std::string_view source, std::string bos_token, std::string eos_token, ChatLimits limits) {
  if (limits.depth < 1 || limits.fuel < 1 || limits.milliseconds < 1 || limits.output_bytes < 1) {
    throw Error(Code::argument, "chat_template", "got a limit below 1, expected positive limits");
  }
  return with_memory([&] {
    auto impl = std::make_shared<Impl>();
    impl->program = text::jinja::compile(source, std::min(limits.depth, text::jinja::kMaxValueDepth));
    impl->source = source;
    impl->bos_token = std::move(bos_token);
    impl->eos_token = std::move(eos_token);
    impl->limits = limits;
    return ChatTemplate(std::move(impl));
  });
}

PromptText ChatTemplate::render(const std::vector<Message>& messages, const ChatOptions& options) const {
  return with_memory([&] { return render_value(*impl_, text::messages_value(messages), options); });
}

PromptText ChatTemplate::render_json(std::string_view messages, const ChatOptions& options) const {
  return with_memory([&] { return render_value(*impl_, text::messages_value(io::parse_json(messages, "messages")), options); });
}

const std::string& ChatTemplate::source() const noexcept { return impl_->source; }
bool ChatTemplate::has_thinking_switch() const noexcept { return impl_->program.reads_thinking; }

}  // namespace dsv31::inline v1
