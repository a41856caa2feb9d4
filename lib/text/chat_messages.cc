#include "lib/text/chat_messages.h"

#include <fmt/format.h>

#include <algorithm>

namespace dsv31::inline v1::text {
namespace {

using jinja::DictCell;
using jinja::Kind;
using jinja::ListCell;
using jinja::Value;

constexpr int kMaxJsonDepth = 64;

Value list_of(std::vector<Value> items) {
  auto cell = std::make_shared<ListCell>();
  for (const Value& item : items) cell->depth = std::max(cell->depth, jinja::depth_of(item) + 1);
  cell->items = std::move(items);
  return {Kind::list, std::move(cell)};
}

Value dict_of(DictCell::Items items, Value source = {}) {
  auto cell = std::make_shared<DictCell>();
  for (const auto& [key, value] : items) cell->depth = std::max(cell->depth, jinja::depth_of(value) + 1);
  cell->items = std::move(items);
  cell->source = std::move(source);
  return {Kind::dict, std::move(cell)};
}

Value text(std::string_view bytes, bool trusted) { return Value::constant(bytes, trusted); }

void put(DictCell::Items& items, std::string_view key, Value value) { items.emplace_back(text(key, false), std::move(value)); }

// Some templates build a control token around the role ('<|' + message.role + '|>'). A role that is one of these words says
// nothing that a message's author could choose, so it may take part; any other role is data.
bool known_role(std::string_view role) {
  static constexpr std::string_view kRoles[] = {"system", "user", "assistant", "tool", "developer"};
  return std::find(std::begin(kRoles), std::end(kRoles), role) != std::end(kRoles);
}

Value tool_calls_value(const Message& message, std::size_t index) {
  std::vector<Value> calls;
  for (std::size_t i = 0; i < message.tool_calls.size(); ++i) {
    const ToolCall& call = message.tool_calls[i];
    const std::string where = fmt::format("messages[{}].tool_calls[{}].arguments", index, i);
    const std::string_view json = call.arguments.empty() ? std::string_view("{}") : call.arguments;
    io::Json arguments;
    try {
      arguments = io::parse_json(json, where, {.max_depth = kMaxJsonDepth});
    } catch (const Error& error) {
      if (error.code() != Code::format) throw;
    }
    if (!arguments.is_object()) throw Error(Code::argument, where, "got no JSON object, expected the text of one");
    DictCell::Items function;
    put(function, "name", text(call.name, message.trusted));
    Value object = value_of(arguments, message.trusted);
    put(function, "arguments", dict_of(object.dict().items, text(json, message.trusted)));
    DictCell::Items items;
    if (!call.id.empty()) put(items, "id", text(call.id, message.trusted));
    put(items, "type", text("function", false));
    put(items, "function", dict_of(std::move(function)));
    calls.push_back(dict_of(std::move(items)));
  }
  return list_of(std::move(calls));
}

}  // namespace

Value value_of(const io::Json& json, bool trusted) {
  if (json.is_bool()) return Value::boolean(json.as_bool());
  if (json.is_int()) return Value::integer(json.as_int());
  if (json.is_uint()) return Value::wide(json.as_double(), fmt::format("{}", json.as_uint()));
  if (json.is_double()) return Value::floating(json.as_double());
  if (json.is_string()) return text(json.as_string(), trusted);
  if (json.is_array()) {
    std::vector<Value> items;
    items.reserve(json.as_array().size());
    for (const io::Json& item : json.as_array()) items.push_back(value_of(item, trusted));
    return list_of(std::move(items));
  }
  if (json.is_object()) {
    DictCell::Items items;
    items.reserve(json.as_object().size());
    for (const auto& [key, value] : json.as_object()) items.emplace_back(text(key, trusted), value_of(value, trusted));
    return dict_of(std::move(items));
  }
  return {};
}

Value messages_value(const std::vector<Message>& messages) {
  std::vector<Value> list;
  list.reserve(messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Message& m = messages[i];
    DictCell::Items items;
    put(items, "role", text(m.role, m.trusted || known_role(m.role)));
    put(items, "content", text(m.content, m.trusted));
    if (!m.reasoning.empty()) put(items, "reasoning_content", text(m.reasoning, m.trusted));
    if (!m.tool_calls.empty()) put(items, "tool_calls", tool_calls_value(m, i));
    if (!m.tool_call_id.empty()) put(items, "tool_call_id", text(m.tool_call_id, m.trusted));
    if (!m.name.empty()) put(items, "name", text(m.name, m.trusted));
    list.push_back(dict_of(std::move(items)));
  }
  return list_of(std::move(list));
}

Value messages_value(const io::Json& json) {
  if (!json.is_array())
    throw Error(Code::argument, "messages", fmt::format("got {}, expected an array of messages", json.kind()));
  std::vector<Value> list;
  list.reserve(json.as_array().size());
  for (std::size_t i = 0; i < json.as_array().size(); ++i) {
    const io::Json& message = json.as_array()[i];
    const std::string where = fmt::format("messages[{}]", i);
    if (!message.is_object()) throw Error(Code::argument, where, fmt::format("got {}, expected an object", message.kind()));
    const io::Json* role = message.find("role");
    if (!role || !role->is_string()) {
      throw Error(Code::argument, where + ".role", fmt::format("got {}, expected a string", role ? role->kind() : "none"));
    }
    DictCell::Items items;
    for (const auto& [key, value] : message.as_object()) {
      const bool trusted = key == "role" && known_role(role->as_string());
      items.emplace_back(text(key, false), value_of(value, trusted));
    }
    list.push_back(dict_of(std::move(items)));
  }
  return list_of(std::move(list));
}

}  // namespace dsv31::inline v1::text
