#include "tests/text/chat_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace dsv31::text_test {

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::string to_json(const io::Json& json) {
  if (json.is_bool()) return json.as_bool() ? "true" : "false";
  if (json.is_int()) return fmt::format("{}", json.as_int());
  if (json.is_uint()) return fmt::format("{}", json.as_uint());
  if (json.is_double()) {
    const std::string s = fmt::format("{}", json.as_double());
    return s.find_first_of(".en") == std::string::npos ? s + ".0" : s;
  }
  if (json.is_string()) {
    std::string out = "\"";
    for (const char c : json.as_string()) {
      if (c == '"' || c == '\\') {
        out += {'\\', c};
      } else if (static_cast<unsigned char>(c) < 0x20) {
        out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
      } else {
        out += c;
      }
    }
    return out + '"';
  }
  std::string out;
  if (json.is_array()) {
    for (const io::Json& item : json.as_array()) out += (out.empty() ? "" : ",") + to_json(item);
    return '[' + out + ']';
  }
  if (json.is_object()) {
    for (const auto& [key, value] : json.as_object())
      out += (out.empty() ? "" : ",") + to_json(io::Json(key)) + ':' + to_json(value);
    return '{' + out + '}';
  }
  return "null";
}

std::string render_row(std::string_view source, const io::Json& row) {
  ChatOptions options;
  options.add_generation_prompt = row.bool_or("add_generation_prompt", true);
  options.now = row.int_or("now", 1);
  if (const io::Json* tools = row.find("tools"); tools && !tools->is_null()) options.tools = to_json(*tools);
  if (const io::Json* kwargs = row.find("kwargs")) options.kwargs = to_json(*kwargs);
  try {
    const ChatTemplate chat = ChatTemplate::parse(source, row.get_string("bos_token"), row.get_string("eos_token"));
    return "ok: " + chat.render_json(to_json(*row.find("messages")), options).text;
  } catch (const Error& error) {
    return std::string("error: ") + error.what();
  }
}

std::string around_difference(std::string_view text, std::string_view other) {
  const std::size_t skip = other.starts_with("ok: ") && !text.starts_with("ok: ") ? 4 : 0;
  const std::size_t skip_text = text.starts_with("ok: ") && !other.starts_with("ok: ") ? 4 : 0;
  std::string_view a = text.substr(skip_text), b = other.substr(skip);
  const auto at = static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  const std::size_t from = at > 60 ? at - 60 : 0;
  return fmt::format("@{}: [{}]", at, a.substr(from, 140));
}

}  // namespace dsv31::text_test
