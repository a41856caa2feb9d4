#include "lib/text/format_json.h"

#include <algorithm>

#include "lib/text/chat_messages.h"
#include "lib/text/jinja_budget.h"
#include "lib/text/jinja_print.h"

namespace dsv31::inline v1::text {

std::string python_json(const io::Json& value) {
  jinja::Budget budget{ChatLimits{}};
  jinja::Text out;
  jinja::append_json(budget, out, value_of(value, false), {});
  return out.take_bytes();
}

void append_json_escaped(std::string& out, std::string_view bytes) {
  constexpr std::string_view kHex = "0123456789abcdef";
  for (const char c : bytes) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += "\\u00";
          out += kHex[static_cast<unsigned char>(c) >> 4];
          out += kHex[static_cast<unsigned char>(c) & 15];
        } else {
          out += c;
        }
    }
  }
}

std::string_view raw_member(std::string_view json, std::string_view key) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::size_t i = json.find('{');
  if (i == std::string_view::npos) return {};
  ++i;
  const auto skip_string = [&] {  // json[i] is a quote
    for (++i; i < json.size() && json[i] != '"'; ++i)
      if (json[i] == '\\') ++i;
    ++i;
  };
  while (i < json.size()) {
    i = std::min(json.find_first_not_of(" \t\r\n,", i), json.size());
    if (i == json.size() || json[i] != '"') return {};
    const std::size_t name = i;
    skip_string();
    const bool found = json.substr(name + 1, i - name - 2) == key;
    i = json.find(':', i);
    if (i == std::string_view::npos) return {};
    i = std::min(json.find_first_not_of(kSpace, i + 1), json.size());
    const std::size_t begin = i;
    if (i < json.size() && (json[i] == '{' || json[i] == '[')) {
      JsonFollower value;
      do value.push(json[i++]);
      while (i < json.size() && !value.done());
    } else if (i < json.size() && json[i] == '"') {
      skip_string();
    } else {
      i = std::min(json.find_first_of(" \t\r\n,}", i), json.size());
    }
    if (found) return json.substr(begin, i - begin);
  }
  return {};
}

}  // namespace dsv31::inline v1::text
