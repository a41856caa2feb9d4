// Filters on single values; those on sequences are in jinja_filters_sequence.cc, where the table is.
#include "lib/text/jinja_filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/text/jinja_print.h"
#include "lib/text/jinja_unicode.h"

namespace dsv31::inline v1::text::jinja {
namespace {

// jinja2's soft_str: markup stays markup.
Value soft(Context& c, const Value& v) { return v.is(Kind::string) ? v : c.budget.text(str(c.budget, v)); }

Value text_like_input(Context& c, const Value& input, Text text) { return c.budget.text(std::move(text), input.markup()); }

Value urlencode_text(Context& c, const Value& v, bool query) {
  const Text text = str(c.budget, v);
  Text out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char ch = text.view()[i];
    const bool plain = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
                       std::string_view("_.-~").find(ch) != std::string_view::npos || (ch == '/' && !query);
    if (plain) {
      out.append(text, i, i + 1);
    } else {
      out.append_for(query && ch == ' ' ? "+" : fmt::format("%{:02X}", static_cast<unsigned char>(ch)), text, i, i + 1);
    }
  }
  return c.budget.text(std::move(out));
}

}  // namespace

namespace filters {

Value trim(Context& c, const Value& v, Arguments& a) {
  const Value* chars = a.get(0, "chars");
  a.done();
  const Value s = soft(c, v);
  c.budget.spend(static_cast<std::int64_t>(s.text().size() / 64));
  return text_like_input(c, s, strip(s.text(), CharSet(c, chars), true, true));
}

Value upper(Context& c, const Value& v, Arguments& a) {
  a.done();
  const Value s = soft(c, v);
  return text_like_input(c, s, map_case(c, s.text(), 'u'));
}

Value lower(Context& c, const Value& v, Arguments& a) {
  a.done();
  const Value s = soft(c, v);
  return text_like_input(c, s, map_case(c, s.text(), 'l'));
}

Value capitalize(Context& c, const Value& v, Arguments& a) {
  a.done();
  const Value s = soft(c, v);
  return text_like_input(c, s, map_case(c, s.text(), 'c'));
}

// Words end at white space, - ( { [ <; unlike str.title an apostrophe ends none.
Value title(Context& c, const Value& v, Arguments& a) {
  a.done();
  const Value input = soft(c, v);
  const Text& text = input.text();
  c.budget.spend(static_cast<std::int64_t>(text.size() / 8));
  Text out;
  std::string mapped;
  bool first = true;
  std::size_t n = 0;
  for (std::size_t i = 0; i < text.size(); i += n) {
    const char32_t ch = char_at(text.view(), i, n);
    const bool border = is_space(ch) || ch == '-' || ch == '(' || ch == '{' || ch == '[' || ch == '<';
    mapped.clear();
    if (border) {
      mapped = text.view().substr(i, n);
    } else if (first) {
      append_upper(mapped, ch);
    } else {
      append_lower(mapped, ch);
    }
    out.append_for(mapped, text, i, i + n);
    first = border;
  }
  return c.budget.text(std::move(out));
}

Value replace(Context& c, const Value& v, Arguments& a) {
  const Value &from = a.need(0, "old"), &to = a.need(1, "new");
  const Value* count = a.get(2, "count");
  const std::int64_t limit = count && !count->is(Kind::none) ? a.whole(2, "count", -1) : -1;
  a.done();
  return c.budget.text(jinja::replace(c, str(c.budget, v), str(c.budget, from), str(c.budget, to), limit));
}

Value string(Context& c, const Value& v, Arguments& a) {
  a.done();
  return soft(c, v);
}

Value default_value(Context& c, const Value& v, Arguments& a) {
  const Value* other = a.get(0, "default_value");
  const bool falsy = a.flag(1, "boolean", false);
  a.done();
  if (!v.is(Kind::undefined) && !(falsy && !truth(v))) return v;
  return other ? *other : c.budget.text(Text());
}

Value to_int(Context& c, const Value& v, Arguments& a) {
  const Value* absent = a.get(0, "default");
  const std::int64_t base = a.whole(1, "base", 10);
  a.done();
  const auto fallback = [&] { return absent ? *absent : Value::integer(0); };
  const auto from_float = [&](double d) {
    if (std::isnan(d) || std::isinf(d)) return fallback();
    if (std::fabs(d) >= 9.2e18) refuse("got a number beyond 64 bits in int, expected a smaller one", Code::limit);
    return Value::integer(static_cast<std::int64_t>(d));
  };
  if (v.is(Kind::undefined)) use_undefined(c, v);
  if (v.is_whole()) return Value::integer(v.as_int());
  if (v.is(Kind::floating)) return from_float(v.as_double());
  if (!v.is(Kind::string)) return fallback();
  c.budget.spend(static_cast<std::int64_t>(v.text().size() / 16));
  std::int64_t n = 0;
  if (base >= 0 && base <= 36 && parse_int(v.text().view(), static_cast<int>(base), n)) return Value::integer(n);
  double d = 0;
  return parse_float(v.text().view(), d) ? from_float(d) : fallback();
}

Value to_float(Context& c, const Value& v, Arguments& a) {
  const Value* absent = a.get(0, "default");
  a.done();
  if (v.is(Kind::undefined)) use_undefined(c, v);
  if (v.is_number()) return Value::floating(v.as_double());
  double d = 0;
  if (v.is(Kind::string) && parse_float(v.text().view(), d)) return Value::floating(d);
  return absent ? *absent : Value::floating(0);
}

Value absolute(Context& c, const Value& v, Arguments& a) {
  a.done();
  if (v.is(Kind::undefined)) use_undefined(c, v);
  if (!v.is_number()) refuse(fmt::format("got a {} in abs, expected a number", type_name(v)));
  return signed_value(c, v, v.is(Kind::floating) ? std::signbit(v.as_double()) : v.as_int() < 0);
}

// Half to even at the decimal digits of the number's exact value, as Python's round.
Value round(Context& c, const Value& v, Arguments& a) {
  const std::int64_t precision = a.whole(0, "precision", 0);
  const Value* method = a.get(1, "method");
  a.done();
  const std::string_view how = method ? need_string(*method, "round").text().view() : "common";
  if (how != "common" && how != "ceil" && how != "floor") refuse("got another method in round, expected common, ceil or floor");
  if (v.is(Kind::undefined)) use_undefined(c, v);
  if (!v.is_number()) refuse(fmt::format("got a {} in round, expected a number", type_name(v)));
  if (precision < -300 || precision > 300) refuse("got a precision beyond 300 in round, expected a smaller one", Code::limit);
  const double d = v.as_double();
  if (how == "common") {
    if (v.is_whole() && precision >= 0) return Value::integer(v.as_int());
    if (std::isnan(d) || std::isinf(d)) return v;
    double rounded = 0;
    if (precision >= 0) {
      parse_float(fmt::format("{:.{}f}", d, precision), rounded);
    } else {
      const double unit = std::pow(10.0, static_cast<double>(-precision));
      rounded = std::nearbyint(d / unit) * unit;
    }
    return v.is_whole() ? Value::integer(static_cast<std::int64_t>(rounded)) : Value::floating(rounded);
  }
  const double unit = std::pow(10.0, static_cast<double>(precision));
  return Value::floating((how == "ceil" ? std::ceil(d * unit) : std::floor(d * unit)) / unit);
}

Value tojson(Context& c, const Value& v, Arguments& a) {
  JsonStyle style;
  style.ensure_ascii = a.flag(0, "ensure_ascii", false);
  if (const Value* indent = a.get(1, "indent"); indent && !indent->is(Kind::none)) {
    style.pretty = true;
    if (indent->is(Kind::string)) {
      style.indent = indent->text();
    } else {
      const std::int64_t width = std::max<std::int64_t>(a.whole(1, "indent", 0), 0);
      c.budget.room(static_cast<std::size_t>(width));
      style.indent = Text(std::string(static_cast<std::size_t>(width), ' '), false);
    }
    style.item_separator = Text(",", false);
  }
  if (const Value* separators = a.get(2, "separators"); separators && !separators->is(Kind::none)) {
    if (!separators->is(Kind::list) || separators->list().items.size() != 2)
      refuse("got no pair of separators in tojson, expected two strings");
    style.item_separator = need_string(separators->list().items[0], "tojson").text();
    style.key_separator = need_string(separators->list().items[1], "tojson").text();
  }
  style.sort_keys = a.flag(3, "sort_keys", false);
  a.done();
  Text out;
  append_json(c.budget, out, v, style);
  return c.budget.text(std::move(out));
}

Value indent(Context& c, const Value& v, Arguments& a) {
  Text space("    ", false);
  if (const Value* width = a.get(0, "width")) {
    if (width->is(Kind::string)) {
      space = width->text();
    } else {
      const std::int64_t n = std::max<std::int64_t>(a.whole(0, "width", 4), 0);
      c.budget.room(static_cast<std::size_t>(n));
      space = Text(std::string(static_cast<std::size_t>(n), ' '), false);
    }
  }
  const bool first = a.flag(1, "first", false), blank = a.flag(2, "blank", false);
  a.done();
  if (v.is(Kind::undefined)) use_undefined(c, v);
  Text text = need_string(v, "indent").text();
  text.append("\n", false);
  Text out;
  if (first) out.append(space);
  bool start = true;
  for (const auto& [begin, end] : lines_of(c, text, false)) {
    c.budget.grow(out, space.size() + end - begin + 1);
    if (!start) {
      out.append("\n", false);
      if (blank || begin != end) out.append(space);
    }
    out.append(text, begin, end);
    start = false;
  }
  return text_like_input(c, v, std::move(out));
}

Value safe(Context& c, const Value& v, Arguments& a) {
  a.done();
  return c.budget.text(str(c.budget, v), true);
}

Value escape(Context& c, const Value& v, Arguments& a) {
  a.done();
  return v.markup() ? v : c.budget.text(escape_html(c.budget, str(c.budget, v)), true);
}

Value force_escape(Context& c, const Value& v, Arguments& a) {
  a.done();
  return c.budget.text(escape_html(c.budget, str(c.budget, v)), true);
}

Value word_count(Context& c, const Value& v, Arguments& a) {
  a.done();
  const Text text = str(c.budget, v);
  c.budget.spend(static_cast<std::int64_t>(text.size() / 8));
  std::int64_t words = 0;
  bool inside = false;
  std::size_t n = 0;
  for (std::size_t i = 0; i < text.size(); i += n) {
    const bool word = is_word(char_at(text.view(), i, n));
    if (word && !inside) ++words;
    inside = word;
  }
  return Value::integer(words);
}

Value format(Context& c, const Value& v, Arguments& a) {
  const Value text = soft(c, v);
  if (a.size()) a.get(a.size() - 1, "");
  if (a.named().empty()) {
    a.done();
    return format_percent(c, text, c.budget.list({a.positional().begin(), a.positional().end()}, Flavour::tuple));
  }
  if (a.size()) refuse("got positional and named values in format, expected one kind");
  DictCell::Items items;
  for (const auto& [name, value] : a.named()) items.emplace_back(c.budget.text(name), value);
  return format_percent(c, text, c.budget.dict(std::move(items)));
}

Value center(Context& c, const Value& v, Arguments& a) {
  const std::int64_t width = a.whole(0, "width", 80);
  a.done();
  const Value text = soft(c, v), value = Value::integer(width);
  bool unsafe = false;
  Arguments arguments("center", {&value, 1}, {});
  return call_method(c, find_method(text, "center", unsafe), text, arguments);
}

Value truncate(Context& c, const Value& v, Arguments& a) {
  const std::int64_t length = a.whole(0, "length", 255);
  const bool kill_words = a.flag(1, "killwords", false);
  const Value* given_end = a.get(2, "end");
  const Value* given_leeway = a.get(3, "leeway");
  const std::int64_t leeway = given_leeway && !given_leeway->is(Kind::none) ? a.whole(3, "leeway", 5) : 5;
  a.done();
  if (!v.is(Kind::string) && length_of(c, v) <= length) return v;
  const Text& text = need_string(v, "truncate").text();
  const Text end = given_end ? need_string(*given_end, "truncate").text() : Text("...", false);
  const auto end_length = static_cast<std::int64_t>(end.length());
  if (length < end_length || leeway < 0) refuse("got a length below that of the end in truncate, expected a larger one");
  if (static_cast<std::int64_t>(text.length()) <= length || static_cast<std::int64_t>(text.length()) - length <= leeway) return v;
  Text out = text.slice(0, text.offset(static_cast<std::size_t>(length - end_length)));
  if (!kill_words) {
    const std::size_t space = out.view().rfind(' ');
    if (space != std::string_view::npos) out = out.slice(0, space);
  }
  out.append(end);
  return text_like_input(c, v, std::move(out));
}

Value urlencode(Context& c, const Value& v, Arguments& a) {
  a.done();
  if (v.is(Kind::string) || !(v.is(Kind::list) || v.is(Kind::dict))) return urlencode_text(c, v, false);
  Text out;
  const auto pair = [&](const Value& key, const Value& value) {
    if (!out.empty()) out.append("&", false);
    out.append(urlencode_text(c, key, true).text());
    out.append("=", false);
    out.append(urlencode_text(c, value, true).text());
  };
  if (v.is(Kind::dict)) {
    for (const auto& [key, value] : v.dict().items) pair(key, value);
  } else {
    for (const Value& item : items_of(c, v, "urlencode")) {
      const std::vector<Value> two = items_of(c, item, "urlencode");
      if (two.size() != 2) refuse(fmt::format("got {} values in urlencode, expected pairs", two.size()));
      pair(two[0], two[1]);
    }
  }
  return c.budget.text(std::move(out));
}

Value attr(Context& c, const Value& v, Arguments& a) {
  const Value& name = need_string(a.need(0, "name"), "attr");
  a.done();
  if (v.is(Kind::undefined)) use_undefined(c, v);
  const Value found = get_attribute(c, v, name.text().view(), -1);
  if (v.is(Kind::dict) && !found.is(Kind::method)) return Value::undefined(Lack::attribute);  // keys are no attributes
  return found;
}

}  // namespace filters
}  // namespace dsv31::inline v1::text::jinja
