#include "lib/text/format_deepseek.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/io/json.h"
#include "lib/text/format_history.h"
#include "lib/text/format_json.h"
#include "lib/text/format_prompt.h"
#include "lib/text/format_text.h"

namespace dsv31::inline v1::text::deepseek {
namespace {

void check_roles(const std::vector<Message>& messages, std::initializer_list<std::string_view> roles) {
  for (std::size_t i = 0; i < messages.size(); ++i)
    if (std::find(roles.begin(), roles.end(), messages[i].role) == roles.end())
      throw Error(Code::argument, fmt::format("messages[{}].role", i),
                  "got a role that this format has no place for, expected system, user, assistant or tool");
}

// The functions of a list of tools in OpenAI's form, bare functions allowed.
std::vector<io::Json> functions_of(const std::string& tools) {
  std::vector<io::Json> out;
  if (tools.empty()) return out;
  io::Json json = io::parse_json(tools, "tools");
  if (!json.is_array()) throw Error(Code::argument, "tools", fmt::format("got {}, expected an array of tools", json.kind()));
  for (std::size_t i = 0; i < json.as_array().size(); ++i) {
    io::Json& tool = json.as_array()[i];
    const io::Json* function = tool.find("function");
    if (function == nullptr) function = &tool;
    const io::Json* name = function->find("name");
    if (name == nullptr || !name->is_string())
      throw Error(Code::argument, fmt::format("tools[{}].function.name", i),
                  fmt::format("got {}, expected a string", name ? name->kind() : "none"));
    out.push_back(*function);
  }
  return out;
}

io::Json arguments_of(const Message& m, std::size_t message, std::size_t call) {
  const std::string where = fmt::format("messages[{}].tool_calls[{}].arguments", message, call);
  const std::string& text = m.tool_calls[call].arguments;
  if (text.empty()) return io::Json(io::Json::Object{});
  io::Json json;
  try {
    json = io::parse_json(text, where);
  } catch (const Error& error) {
    if (error.code() != Code::format) throw;
  }
  if (!json.is_object()) throw Error(Code::argument, where, "got no JSON object, expected the text of one");
  return json;
}

std::string_view arguments_text(const ToolCall& call) { return call.arguments.empty() ? std::string_view("{}") : call.arguments; }

// System messages come first, wherever they stand, joined by an empty line.
void put_system(PromptWriter& out, const std::vector<Message>& messages) {
  bool first = true;
  for (const Message& m : messages) {
    if (m.role != "system") continue;
    if (!first) out.data("\n\n");
    out.data(m.content, m.trusted);
    first = false;
  }
}

void refuse_tools(const ChatOptions& options) {
  if (functions_of(options.tools).empty()) return;
  throw Error(
      Code::unsupported, "tools",
      "got tools for DeepSeek V2, V3 or R1, which have no text for them, expected their description in the system message");
}

// V3 and R1 differ in what they keep of an answer and in how a turn of the assistant begins.
PromptText render_v3_family(const std::vector<Message>& messages, const ChatOptions& options, bool r1) {
  check_roles(messages, {"system", "user", "assistant", "tool"});
  refuse_tools(options);
  PromptWriter out;
  out.marker(kBos);
  put_system(out, messages);
  bool in_outputs = false, after_outputs = false;
  const auto end_outputs = [&] {
    if (in_outputs) out.marker(kOutputsEnd);
    after_outputs = in_outputs;
    in_outputs = false;
  };
  for (const Message& m : messages) {
    if (m.role == "tool") {
      out.marker(in_outputs ? "\n" : kOutputsBegin).marker(kOutputBegin).data(m.content, m.trusted).marker(kOutputEnd);
      in_outputs = true;
      continue;
    }
    if (m.role == "system") continue;
    end_outputs();
    if (m.role == "user") {
      out.marker(kUser).data(m.content, m.trusted);
      continue;
    }
    if (!after_outputs) out.marker(kAssistant);
    std::string_view content = m.content;
    if (r1)
      if (const std::size_t at = content.rfind(kEndThink); at != std::string_view::npos)
        content.remove_prefix(at + kEndThink.size());
    out.data(content, m.trusted);
    for (std::size_t i = 0; i < m.tool_calls.size(); ++i) {
      out.marker(i == 0 ? kCallsBegin : "\n").marker(kCallBegin).marker("function").marker(kSep);
      out.data(m.tool_calls[i].name, m.trusted)
          .marker("\n```json\n")
          .data(arguments_text(m.tool_calls[i]), m.trusted)
          .marker("\n```");
      out.marker(kCallEnd);
    }
    if (!m.tool_calls.empty()) out.marker(kCallsEnd);
    out.marker(kEos);
  }
  const bool continues = in_outputs;  // the answer goes on right after the outputs
  end_outputs();
  if (options.add_generation_prompt && !continues) {
    out.marker(kAssistant);
    if (r1) out.marker(kThink).marker(options.thinking.value_or(true) ? "\n" : "\n\n</think>\n\n");
  }
  return out.take();
}

}  // namespace

PromptText render_v2(const std::vector<Message>& messages, const ChatOptions& options) {
  check_roles(messages, {"system", "user", "assistant"});
  refuse_tools(options);
  PromptWriter out;
  out.marker(kBos);
  put_system(out, messages);
  if (std::any_of(messages.begin(), messages.end(), [](const Message& m) { return m.role == "system"; })) out.data("\n\n");
  for (const Message& m : messages) {
    if (m.role == "user") {
      out.data("User: ").data(m.content, m.trusted).data("\n\n");
    } else if (m.role == "assistant") {
      // A sampled answer brings the space with it: the generation prompt ends at the colon.
      const bool has_space = m.content.starts_with(' ') || m.content.starts_with(kPlaceholder);
      out.data(has_space ? "Assistant:" : "Assistant: ").data(m.content, m.trusted).marker(kEos);
    }
  }
  if (options.add_generation_prompt) out.data("Assistant:");
  return out.take();
}

PromptText render_v3(const std::vector<Message>& messages, const ChatOptions& options) {
  return render_v3_family(messages, options, false);
}
PromptText render_r1(const std::vector<Message>& messages, const ChatOptions& options) {
  return render_v3_family(messages, options, true);
}

PromptText render_v3_1(const std::vector<Message>& messages, const ChatOptions& options) {
  check_roles(messages, {"system", "user", "assistant", "tool"});
  PromptWriter out;
  out.marker(kBos);
  put_system(out, messages);
  if (const auto functions = functions_of(options.tools); !functions.empty()) {
    out.data("\n\n## Tools\nYou have access to the following tools:\n\n");
    for (const io::Json& f : functions) {
      const io::Json* parameters = f.find("parameters");
      out.data("### ").data(f.get_string("name")).data("\nDescription: ").data(f.string_or("description", ""));
      out.data("\n\nParameters: ").data(parameters ? python_json(*parameters) : "{}").data("\n\n");
    }
    out.marker(kToolsV31);
  }
  bool after_output = false;
  for (const Message& m : messages) {
    if (m.role == "user") {
      out.marker(kUser).data(m.content, m.trusted);
    } else if (m.role == "tool") {
      out.marker(kOutputBegin).data(m.content, m.trusted).marker(kOutputEnd);
    } else if (m.role == "assistant") {
      if (!after_output) out.marker(kAssistant).marker(kEndThink);
      std::string_view content = m.content;
      if (const std::size_t at = content.find(kEndThink); at != std::string_view::npos)
        content.remove_prefix(at + kEndThink.size());
      out.data(content, m.trusted);
      if (!m.tool_calls.empty()) out.marker(kCallsBegin);
      for (const ToolCall& call : m.tool_calls)
        out.marker(kCallBegin).data(call.name, m.trusted).marker(kSep).data(arguments_text(call), m.trusted).marker(kCallEnd);
      if (!m.tool_calls.empty()) out.marker(kCallsEnd);
      out.marker(kEos);
    }
    if (m.role != "system") after_output = m.role == "tool";
  }
  if (options.add_generation_prompt && !after_output)
    out.marker(kAssistant).marker(options.thinking.value_or(false) ? kThink : kEndThink);
  return out.take();
}

PromptText render_v3_2(const std::vector<Message>& messages, const ChatOptions& options) {
  check_roles(messages, {"system", "user", "developer", "assistant", "tool"});
  const bool thinking = options.thinking.value_or(false);
  const auto functions = functions_of(options.tools);
  io::Json kwargs;
  if (!options.kwargs.empty()) kwargs = io::parse_json(options.kwargs, "kwargs");
  const io::Json* response_format = kwargs.find("response_format");
  if (!options.kwargs.empty() && (!kwargs.is_object() || kwargs.as_object().size() != (response_format ? 1u : 0u)))
    throw Error(Code::argument, "kwargs", "got other members than response_format, expected an object with that alone");

  PromptWriter out;
  out.marker(kBos);
  const auto put_tools = [&] {
    if (!functions.empty()) {
      out.data("\n\n").marker(kToolsV32Head);
      for (std::size_t i = 0; i < functions.size(); ++i) out.data(i == 0 ? "" : "\n").data(python_json(functions[i]));
      out.marker(kToolsV32Tail);
    }
    if (response_format) out.data("\n\n").data(kResponseFormat).data(python_json(*response_format));
  };
  const auto put_tag = [&](bool think) { out.marker(think ? kThink : kEndThink); };

  std::size_t last_user = messages.size();  // none: everything counts as after it
  bool has_user = false, tools_shown = false;
  for (std::size_t i = 0; i < messages.size(); ++i)
    if (messages[i].role == "user" || messages[i].role == "developer") last_user = i, has_user = true;
  const auto after_user = [&](std::size_t i) { return !has_user || i >= last_user; };
  if (std::none_of(messages.begin(), messages.end(), [](const Message& m) { return m.role == "system"; })) {
    put_tools();
    tools_shown = true;
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Message& m = messages[i];
    const bool last = i + 1 == messages.size(), prompt = !last || options.add_generation_prompt;
    if (m.role == "system") {
      out.data(m.content, m.trusted);
      if (!tools_shown) put_tools();
      tools_shown = true;
    } else if (m.role == "user" || m.role == "developer") {
      if (m.role == "developer" && thinking && i < last_user) continue;  // as the reference code does
      out.marker(kUser);
      if (m.role == "developer") out.data("\n\n# The user's message is: ");
      out.data(m.content, m.trusted);
      if (prompt) out.marker(kAssistant), put_tag(thinking && i == last_user);
    } else if (m.role == "assistant") {
      if (thinking && after_user(i)) out.data(m.reasoning, m.trusted).marker(kEndThink);
      out.data(m.content, m.trusted);
      if (!m.tool_calls.empty()) out.marker("\n\n<｜DSML｜function_calls>");
      for (std::size_t c = 0; c < m.tool_calls.size(); ++c) {
        out.marker("\n<｜DSML｜invoke name=\"").data(m.tool_calls[c].name, m.trusted).marker("\">\n");
        const io::Json arguments = arguments_of(m, i, c);
        bool first = true;
        for (const auto& [key, value] : arguments.as_object()) {
          out.marker(first ? "<｜DSML｜parameter name=\"" : "\n<｜DSML｜parameter name=\"").data(key, m.trusted);
          out.marker(value.is_string() ? "\" string=\"true\">" : "\" string=\"false\">");
          out.data(value.is_string() ? value.as_string() : python_json(value), m.trusted).marker("</｜DSML｜parameter>");
          first = false;
        }
        out.marker("\n</｜DSML｜invoke>");
      }
      if (!m.tool_calls.empty()) out.marker("\n</｜DSML｜function_calls>");
      out.marker(kEos);
    } else {
      if (i == 0 || messages[i - 1].role != "tool") out.marker("\n\n<function_results>");
      out.marker("\n<result>").data(m.content, m.trusted).marker("</result>");
      if (last || messages[i + 1].role != "tool") {
        out.marker("\n</function_results>");
        if (prompt) out.marker("\n\n"), put_tag(thinking && after_user(i));
      }
    }
  }
  return out.take();
}

}  // namespace dsv31::inline v1::text::deepseek
