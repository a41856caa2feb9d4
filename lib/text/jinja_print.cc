#include "lib/text/jinja_print.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "lib/text/jinja_unicode.h"

namespace dsv31::inline v1::text::jinja {
namespace {

void repr_text(Budget& budget, Text& out, const Text& text) {
  budget.grow(out, text.size() + 2);
  const std::string_view s = text.view();
  const char quote = s.find('\'') != std::string_view::npos && s.find('"') == std::string_view::npos ? '"' : '\'';
  out.append(std::string_view(&quote, 1), false);
  std::size_t plain = 0, n = 0;
  for (std::size_t i = 0; i < s.size(); i += n) {
    const char32_t c = char_at(s, i, n);
    if (c != static_cast<char32_t>(quote) && c != '\\' && is_printable(c)) continue;
    out.append(text, plain, i);
    std::string escaped;
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      escaped = {'\\', static_cast<char>(c)};
    } else if (c == '\n') {
      escaped = "\\n";
    } else if (c == '\r') {
      escaped = "\\r";
    } else if (c == '\t') {
      escaped = "\\t";
    } else if (c < 0x100) {
      escaped = fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    } else if (c < 0x10000) {
      escaped = fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      escaped = fmt::format("\\U{:08x}", static_cast<unsigned>(c));
    }
    out.append_for(escaped, text, i, i + n);
    plain = i + n;
  }
  out.append(text, plain, s.size());
  out.append(std::string_view(&quote, 1), false);
}

void repr(Budget& budget, Text& out, const Value& v, int depth);

void repr_items(Budget& budget, Text& out, const std::vector<Value>& items, int depth) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i) out.append(", ", false);
    repr(budget, out, items[i], depth);
  }
}

void repr_pairs(Budget& budget, Text& out, const DictCell::Items& items, int depth) {
  out.append("{", false);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i) out.append(", ", false);
    repr(budget, out, items[i].first, depth);
    out.append(": ", false);
    repr(budget, out, items[i].second, depth);
  }
  out.append("}", false);
}

void repr_list(Budget& budget, Text& out, const ListCell& list, int depth) {
  switch (list.flavour) {
    case Flavour::list:
      out.append("[", false);
      break;
    case Flavour::tuple:
      out.append("(", false);
      break;
    case Flavour::keys:
      out.append("dict_keys([", false);
      break;
    case Flavour::values:
      out.append("dict_values([", false);
      break;
    case Flavour::items:
      out.append("dict_items([", false);
      break;
    case Flavour::generator:
      out.append("<generator object>", false);
      return;
    case Flavour::range: {
      const auto& [start, stop, step] = list.range;
      out.append(step == 1 ? fmt::format("range({}, {})", start, stop) : fmt::format("range({}, {}, {})", start, stop, step),
                 false);
      return;
    }
  }
  repr_items(budget, out, list.items, depth);
  if (list.flavour == Flavour::list) {
    out.append("]", false);
  } else if (list.flavour == Flavour::tuple) {
    out.append(list.items.size() == 1 ? ",)" : ")", false);
  } else {
    out.append("])", false);
  }
}

void repr(Budget& budget, Text& out, const Value& v, int depth) {
  budget.spend(1);
  budget.check_depth(depth);
  budget.grow(out, 0);
  switch (v.kind()) {
    case Kind::undefined:
      out.append("Undefined", false);
      return;
    case Kind::none:
      out.append("None", false);
      return;
    case Kind::boolean:
      out.append(v.as_int() ? "True" : "False", false);
      return;
    case Kind::integer:
      out.append(fmt::format("{}", v.as_int()), false);
      return;
    case Kind::floating:
      out.append(v.cell() ? v.text().bytes() : repr_float(v.as_double()), false);
      return;
    case Kind::string:
      if (v.markup()) out.append("Markup(", false);
      repr_text(budget, out, v.text());
      if (v.markup()) out.append(")", false);
      return;
    case Kind::list:
      repr_list(budget, out, v.list(), depth + 1);
      return;
    case Kind::dict:
      if (v.dict().source.is(Kind::string)) {
        out.append(v.dict().source.text());
      } else {
        repr_pairs(budget, out, v.dict().items, depth + 1);
      }
      return;
    case Kind::name_space:
      out.append("<Namespace ", false);
      repr_pairs(budget, out, v.as<NamespaceCell>().items, depth + 1);
      out.append(">", false);
      return;
    case Kind::macro: {
      const std::string_view name = v.as<MacroCell>().name;
      out.append(name.empty() ? "<Macro anonymous>" : fmt::format("<Macro '{}'>", name), false);
      return;
    }
    case Kind::loop:
      out.append(fmt::format("<LoopContext {}/{}>", v.as<LoopCell>().index0 + 1, v.as<LoopCell>().source->items.size()), false);
      return;
    default:
      out.append(fmt::format("<{}>", type_name(v)), false);
      return;
  }
}

void json_text(Budget& budget, Text& out, const Text& text, bool ensure_ascii) {
  budget.grow(out, text.size() + 2);
  const std::string_view s = text.view();
  out.append("\"", false);
  std::size_t plain = 0, n = 0;
  for (std::size_t i = 0; i < s.size(); i += n) {
    const char32_t c = char_at(s, i, n);
    if (c >= 0x20 && c != '"' && c != '\\' && (c < 0x7F || !ensure_ascii)) continue;
    out.append(text, plain, i);
    std::string escaped;
    switch (c) {
      case '"':
        escaped = "\\\"";
        break;
      case '\\':
        escaped = "\\\\";
        break;
      case '\n':
        escaped = "\\n";
        break;
      case '\r':
        escaped = "\\r";
        break;
      case '\t':
        escaped = "\\t";
        break;
      case '\b':
        escaped = "\\b";
        break;
      case '\f':
        escaped = "\\f";
        break;
      default:
        escaped = c < 0x10000 ? fmt::format("\\u{:04x}", static_cast<unsigned>(c))
                              : fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((static_cast<unsigned>(c) - 0x10000) >> 10),
                                            0xDC00 + ((static_cast<unsigned>(c) - 0x10000) & 0x3FF));
    }
    out.append_for(escaped, text, i, i + n);
    plain = i + n;
  }
  out.append(text, plain, s.size());
  out.append("\"", false);
}

class JsonWriter {
 public:
  JsonWriter(Budget& budget, Text& out, const JsonStyle& style) : budget_(budget), out_(out), style_(style) {}

  void write(const Value& v, int depth) {
    budget_.spend(1);
    budget_.grow(out_, 0);
    switch (v.kind()) {
      case Kind::none:
        put("null");
        return;
      case Kind::boolean:
        put(v.as_int() ? "true" : "false");
        return;
      case Kind::integer:
        put(fmt::format("{}", v.as_int()));
        return;
      case Kind::floating:
        put(v.cell() ? v.text().bytes() : number(v.as_double()));
        return;
      case Kind::string:
        json_text(budget_, out_, v.text(), style_.ensure_ascii);
        return;
      case Kind::list:
        if (v.list().flavour == Flavour::list || v.list().flavour == Flavour::tuple) {
          array(v.list().items, depth);
          return;
        }
        break;
      case Kind::dict:
        object(v.dict().items, depth);
        return;
      default:
        break;
    }
    refuse(fmt::format("got a value of type {} in tojson, expected one that JSON has", type_name(v)));
  }

 private:
  void put(std::string_view s) { out_.append(s, false); }
  static std::string number(double d) {
    if (std::isnan(d)) return "NaN";
    if (std::isinf(d)) return d > 0 ? "Infinity" : "-Infinity";
    return repr_float(d);
  }
  void line(int depth) {
    if (!style_.pretty) return;
    budget_.room(static_cast<std::size_t>(depth) + 1, style_.indent.size() + 1);
    put("\n");
    for (int i = 0; i < depth; ++i) out_.append(style_.indent);
  }
  void array(const std::vector<Value>& items, int depth) {
    if (items.empty()) return put("[]");
    put("[");
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i) out_.append(style_.item_separator);
      line(depth + 1);
      write(items[i], depth + 1);
    }
    line(depth);
    put("]");
  }
  void object(const DictCell::Items& items, int depth) {
    if (items.empty()) return put("{}");
    std::vector<const std::pair<Value, Value>*> order;
    for (const auto& pair : items) order.push_back(&pair);
    if (style_.sort_keys) {
      std::stable_sort(order.begin(), order.end(), [&](auto* a, auto* b) { return budget_.less(a->first, b->first); });
    }
    put("{");
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i) out_.append(style_.item_separator);
      line(depth + 1);
      key(order[i]->first);
      out_.append(style_.key_separator);
      write(order[i]->second, depth + 1);
    }
    line(depth);
    put("}");
  }
  void key(const Value& k) {
    switch (k.kind()) {
      case Kind::string:
        json_text(budget_, out_, k.text(), style_.ensure_ascii);
        return;
      case Kind::none:
        put("\"null\"");
        return;
      case Kind::boolean:
        put(k.as_int() ? "\"true\"" : "\"false\"");
        return;
      case Kind::integer:
        put(fmt::format("\"{}\"", k.as_int()));
        return;
      case Kind::floating:
        put('"' + number(k.as_double()) + '"');
        return;
      default:
        refuse(fmt::format("got a key of type {} in tojson, expected a string", type_name(k)));
    }
  }

  Budget& budget_;
  Text& out_;
  const JsonStyle& style_;
};

}  // namespace

std::string repr_float(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d > 0 ? "inf" : "-inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, d, std::chars_format::scientific).ptr;
  std::string_view s(buffer, static_cast<std::size_t>(end - buffer));
  std::string out;
  if (s.front() == '-') {
    out = "-";
    s.remove_prefix(1);
  }
  const std::size_t e = s.find('e');
  int exponent = 0;
  const char* first = s.data() + e + 1;
  if (*first == '+') ++first;
  std::from_chars(first, s.data() + s.size(), exponent);
  std::string digits(1, s[0]);
  if (e > 2) digits += s.substr(2, e - 2);
  const int n = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (n > 1) out += '.' + digits.substr(1);
    out += fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  } else if (exponent < 0) {
    out += "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  } else if (n <= exponent + 1) {
    out += digits + std::string(static_cast<std::size_t>(exponent + 1 - n), '0') + ".0";
  } else {
    out += digits.substr(0, static_cast<std::size_t>(exponent) + 1) + '.' + digits.substr(static_cast<std::size_t>(exponent) + 1);
  }
  return out;
}

void append_repr(Budget& budget, Text& out, const Value& v) { repr(budget, out, v, 0); }

void append_str(Budget& budget, Text& out, const Value& v) {
  if (v.is(Kind::undefined)) return;
  if (v.is(Kind::string)) {
    budget.grow(out, v.text().size());
    out.append(v.text());
    return;
  }
  repr(budget, out, v, 0);
}

Text str(Budget& budget, const Value& v) {
  if (v.is(Kind::string)) return v.text();
  Text out;
  append_str(budget, out, v);
  return out;
}

void append_json(Budget& budget, Text& out, const Value& v, const JsonStyle& style) {
  JsonWriter(budget, out, style).write(v, 0);
}

Text escape_html(Budget& budget, const Text& text) {
  budget.room(text.size());
  const std::string_view s = text.view();
  Text out;
  std::size_t plain = 0;
  for (std::size_t i = 0; i < s.size(); ++i) {
    const char* entity = nullptr;
    switch (s[i]) {
      case '&':
        entity = "&amp;";
        break;
      case '<':
        entity = "&lt;";
        break;
      case '>':
        entity = "&gt;";
        break;
      case '\'':
        entity = "&#39;";
        break;
      case '"':
        entity = "&#34;";
        break;
      default:
        continue;
    }
    out.append(text, plain, i);
    out.append_for(entity, text, i, i + 1);
    plain = i + 1;
  }
  out.append(text, plain, s.size());
  return out;
}

}  // namespace dsv31::inline v1::text::jinja
