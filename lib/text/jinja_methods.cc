// Methods as Python's str, list, tuple, dict have them, and those of jinja2's loop and cycler.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "lib/text/jinja_natives.h"
#include "lib/text/jinja_print.h"
#include "lib/text/jinja_unicode.h"

namespace dsv31::inline v1::text::jinja {
namespace {

using Method = Value (*)(Context&, const Value& self, Arguments&);

// Character range [start, end) of the arguments at `index`, as bytes; false where start lies past the end.
bool byte_range(const Text& text, Arguments& arguments, std::size_t index, std::size_t& begin, std::size_t& end) {
  const Value *from = arguments.get(index, ""), *to = arguments.get(index + 1, "");
  arguments.done();
  begin = 0, end = text.size();
  if (!from && !to) return true;
  const auto length = static_cast<std::int64_t>(text.length());
  const auto place = [&](const Value* v, std::int64_t absent) {
    if (!v || v->is(Kind::none)) return absent;
    if (!v->is_whole()) refuse(fmt::format("got a {} as an index, expected an integer", type_name(*v)));
    return v->as_int() < 0 ? std::max<std::int64_t>(v->as_int() + length, 0) : v->as_int();
  };
  const std::int64_t a = place(from, 0), b = std::min(place(to, length), length);
  if (a > b) return false;
  begin = text.offset(static_cast<std::size_t>(a));
  end = text.offset(static_cast<std::size_t>(b));
  return true;
}

// The library's search from the right compares every place with the whole needle in the worst case; long needles pay for it.
void charge_backward_search(Context& c, std::string_view hay, std::string_view needle) {
  if (needle.size() > 32) c.budget.spend(static_cast<std::int64_t>((hay.size() / 64 + 1) * (needle.size() / 64 + 1)));
}

Value strip_method(Context& c, const Value& self, Arguments& a, bool left, bool right) {
  const Value* chars = a.get(0, "");
  a.done();
  c.budget.spend(static_cast<std::int64_t>(self.text().size() / 64));
  return c.budget.text(strip(self.text(), CharSet(c, chars), left, right));
}

Value split_pieces(Context& c, const Text& text, const Pieces& pieces, bool markup) {
  std::vector<Value> items;
  items.reserve(pieces.size());
  for (const auto& [begin, end] : pieces) items.push_back(c.budget.text(text.slice(begin, end), markup));
  return c.budget.list(std::move(items));
}

Value split_method(Context& c, const Value& self, Arguments& a, bool from_right) {
  const Value* separator = a.get(0, "sep");
  std::int64_t limit = a.whole(1, "maxsplit", -1);
  a.done();
  if (limit < 0) limit = std::numeric_limits<std::int64_t>::max();
  const Text& text = self.text();
  const std::string_view s = text.view();
  c.budget.spend(static_cast<std::int64_t>(s.size() / 16));
  Pieces pieces;
  if (separator && !separator->is(Kind::none)) {
    const std::string_view sep = need_string(*separator, "split").text().view();
    if (sep.empty()) refuse("got an empty separator in split, expected a string");
    std::vector<std::size_t> places;
    if (!from_right) {
      for (std::size_t at = 0; (at = find_bytes(s, sep, at)) != std::string_view::npos; at += sep.size()) {
        if (static_cast<std::int64_t>(places.size()) >= limit) break;
        places.push_back(at);
        c.budget.spend(4);
      }
    } else {  // found from the right: they differ where separators overlap
      charge_backward_search(c, s, sep);
      for (std::size_t end = s.size(); static_cast<std::int64_t>(places.size()) < limit;) {
        if (end < sep.size()) break;
        const std::size_t at = s.rfind(sep, end - sep.size());
        if (at == std::string_view::npos) break;
        places.push_back(at);
        end = at;
        c.budget.spend(4);
      }
      std::reverse(places.begin(), places.end());
    }
    std::size_t begin = 0;
    for (const std::size_t at : places) {
      pieces.emplace_back(begin, at);
      begin = at + sep.size();
    }
    pieces.emplace_back(begin, s.size());
    return split_pieces(c, text, pieces, self.markup());
  }
  std::size_t n = 0;
  for (std::size_t i = 0; i < s.size();) {  // every word
    if (is_space(char_at(s, i, n))) {
      i += n;
      continue;
    }
    const std::size_t begin = i;
    while (i < s.size() && !is_space(char_at(s, i, n))) i += n;
    pieces.emplace_back(begin, i);
    c.budget.spend(4);
  }
  const auto words = static_cast<std::int64_t>(pieces.size());
  if (words > limit) {
    if (from_right) {  // the words that are left keep their spaces
      const std::size_t joined = static_cast<std::size_t>(words - limit);
      pieces[joined - 1].first = 0;
      pieces.erase(pieces.begin(), pieces.begin() + static_cast<std::ptrdiff_t>(joined - 1));
    } else {
      pieces.resize(static_cast<std::size_t>(limit) + 1);
      pieces.back().second = s.size();
    }
  }
  return split_pieces(c, text, pieces, self.markup());
}

Value affix_method(Context& c, const Value& self, Arguments& a, bool start) {
  const Value& what = a.need(0, "");
  std::size_t begin = 0, end = 0;
  const bool inside = byte_range(self.text(), a, 1, begin, end);
  const std::string_view s = inside ? self.text().view().substr(begin, end - begin) : std::string_view();
  const auto fits = [&](const Value& v) {
    const std::string_view affix = need_string(v, start ? "startswith" : "endswith").text().view();
    return inside && (start ? s.starts_with(affix) : s.ends_with(affix));
  };
  c.budget.spend(1);
  if (what.is(Kind::list) && what.list().flavour == Flavour::tuple) {
    return Value::boolean(std::any_of(what.list().items.begin(), what.list().items.end(), fits));
  }
  return Value::boolean(fits(what));
}

Value find_method_of(Context& c, const Value& self, Arguments& a, bool last, bool must) {
  const Text& what = need_string(a.need(0, ""), "find").text();
  std::size_t begin = 0, end = 0, at = std::string_view::npos;
  c.budget.spend(static_cast<std::int64_t>(self.text().size() / 16));
  if (byte_range(self.text(), a, 1, begin, end)) {
    const std::string_view s = self.text().view().substr(begin, end - begin);
    if (last) {  // by forward steps, which are linear
      for (std::size_t i = 0; (i = find_bytes(s, what.view(), i)) != std::string_view::npos; ++i) {
        at = i;
        c.budget.spend(static_cast<std::int64_t>(what.size() / 16) + 1);
      }
    } else {
      at = find_bytes(s, what.view());
    }
  }
  if (at == std::string_view::npos) {
    if (must) refuse("got a substring that is not found, expected one that is");
    return Value::integer(-1);
  }
  return Value::integer(static_cast<std::int64_t>(self.text().slice(0, begin + at).length()));
}

Value count_method(Context& c, const Value& self, Arguments& a) {
  const std::string_view what = need_string(a.need(0, ""), "count").text().view();
  std::size_t begin = 0, end = 0;
  if (!byte_range(self.text(), a, 1, begin, end)) return Value::integer(0);
  const std::string_view s = self.text().view().substr(begin, end - begin);
  c.budget.spend(static_cast<std::int64_t>(s.size() / 16));
  if (what.empty()) return Value::integer(static_cast<std::int64_t>(self.text().slice(begin, end).length()) + 1);
  std::int64_t n = 0;
  for (std::size_t at = 0; (at = find_bytes(s, what, at)) != std::string_view::npos; at += what.size()) ++n;
  return Value::integer(n);
}

Value pad_method(Context& c, const Value& self, Arguments& a, char how) {
  const std::int64_t width = a.need_whole(0, "");
  Text fill(" ", false);
  if (const Value* v = how == 'z' ? nullptr : a.get(1, "")) fill = need_string(*v, "padding").text();
  a.done();
  if (fill.length() != 1) refuse("got a fill of several characters, expected one");
  if (how == 'z') fill = Text("0", false);
  const Text& text = self.text();
  const auto length = static_cast<std::int64_t>(text.length());
  if (width <= length) return self;
  const auto missing = static_cast<std::size_t>(width - length);
  c.budget.room(missing, fill.size());
  std::size_t left = 0, sign = 0;
  if (how == 'r' || how == 'z') left = missing;
  if (how == 'c') left = missing / 2 + (missing & static_cast<std::size_t>(width) & 1);
  if (how == 'z' && (text.view().starts_with('-') || text.view().starts_with('+'))) sign = 1;
  Text out = text.slice(0, sign);
  for (std::size_t i = 0; i < left; ++i) out.append(fill);
  out.append(text, sign, text.size());
  for (std::size_t i = left; i < missing; ++i) out.append(fill);
  return c.budget.text(std::move(out));
}

Value join_method(Context& c, const Value& self, Arguments& a) {
  const Value& list = a.need(0, "");
  a.done();
  Text out;
  bool first = true;
  for (const Value& item : items_of(c, list, "join")) {
    if (!item.is(Kind::string) && !self.markup()) refuse(fmt::format("got a {} in join, expected strings", type_name(item)));
    const Text text = escaped_str(c, item, self.markup());
    c.budget.grow(out, text.size() + self.text().size());
    if (!first) out.append(self.text());
    out.append(text);
    first = false;
  }
  return c.budget.text(std::move(out));
}

Value replace_method(Context& c, const Value& self, Arguments& a) {
  const Value &from = need_string(a.need(0, ""), "replace"), &to = need_string(a.need(1, ""), "replace");
  const std::int64_t count = a.whole(2, "count", -1);
  a.done();
  return c.budget.text(replace(c, self.text(), escaped_str(c, from, self.markup()), escaped_str(c, to, self.markup()), count));
}

Value splitlines_method(Context& c, const Value& self, Arguments& a) {
  const bool keep = a.flag(0, "keepends", false);
  a.done();
  return split_pieces(c, self.text(), lines_of(c, self.text(), keep), self.markup());
}

Value partition_method(Context& c, const Value& self, Arguments& a, bool last) {
  const Text& separator = need_string(a.need(0, ""), "partition").text();
  a.done();
  if (separator.empty()) refuse("got an empty separator in partition, expected a string");
  const Text& text = self.text();
  c.budget.spend(static_cast<std::int64_t>(text.size() / 16));
  if (last) charge_backward_search(c, text.view(), separator.view());
  const std::size_t at = last ? text.view().rfind(separator.view()) : find_bytes(text.view(), separator.view());
  std::vector<Value> items;
  if (at == std::string_view::npos) {
    items = {self, c.budget.text(Text()), c.budget.text(Text())};
    if (last) std::swap(items[0], items[2]);
  } else {
    items = {c.budget.text(text.slice(0, at)), c.budget.text(text.slice(at, at + separator.size())),
             c.budget.text(text.slice(at + separator.size(), text.size()))};
  }
  return c.budget.list(std::move(items), Flavour::tuple);
}

Value remove_method(Context& c, const Value& self, Arguments& a, bool prefix) {
  const std::string_view affix = need_string(a.need(0, ""), "remove").text().view();
  a.done();
  const Text& text = self.text();
  if (prefix ? !text.view().starts_with(affix) : !text.view().ends_with(affix)) return self;
  return c.budget.text(prefix ? text.slice(affix.size(), text.size()) : text.slice(0, text.size() - affix.size()));
}

Value expandtabs_method(Context& c, const Value& self, Arguments& a) {
  const std::int64_t size = a.whole(0, "tabsize", 8);
  a.done();
  Text out;
  std::int64_t column = 0;
  const Text& text = self.text();
  std::size_t n = 0;
  for (std::size_t i = 0; i < text.size(); i += n) {
    const char32_t ch = char_at(text.view(), i, n);
    if (ch == '\t') {
      const std::int64_t spaces = size > 0 ? size - column % size : 0;
      c.budget.grow(out, static_cast<std::size_t>(spaces) + 1);
      out.append(std::string(static_cast<std::size_t>(spaces), ' '), false);
      column += spaces;
    } else {
      out.append(text, i, i + n);
      column = ch == '\n' || ch == '\r' ? 0 : column + 1;
    }
  }
  return c.budget.text(std::move(out));
}

Value case_method(Context& c, const Value& self, Arguments& a, char how) {
  a.done();
  return c.budget.text(map_case(c, self.text(), how));
}

// True where the text is not empty and every character passes.
Value all_method(Context& c, const Value& self, Arguments& a, bool (*passes)(char32_t)) {
  a.done();
  const std::string_view s = self.text().view();
  c.budget.spend(static_cast<std::int64_t>(s.size() / 8));
  std::size_t n = 0;
  for (std::size_t i = 0; i < s.size(); i += n) {
    if (!passes(char_at(s, i, n))) return Value::boolean(false);
  }
  return Value::boolean(!s.empty());
}

// islower, isupper, istitle.
Value cased_method(Context& c, const Value& self, Arguments& a, char how) {
  a.done();
  const std::string_view s = self.text().view();
  c.budget.spend(static_cast<std::int64_t>(s.size() / 8));
  bool any = false, previous = false;
  std::size_t n = 0;
  for (std::size_t i = 0; i < s.size(); i += n) {
    const char32_t ch = char_at(s, i, n);
    const bool upper = is_upper(ch) || is_title(ch), lower = is_lower(ch);
    if (how == 'l' ? upper : how == 'u' ? lower || is_title(ch) : (upper && previous) || (lower && !previous))
      return Value::boolean(false);
    previous = upper || lower;
    any = any || previous;
  }
  return Value::boolean(any);
}

Value format_method(Context& c, const Value& self, Arguments& a) { return format_braces(c, self, a); }

Value format_map_method(Context& c, const Value& self, Arguments& a) {
  const Value& map = a.need(0, "");
  a.done();
  if (!map.is(Kind::dict)) refuse(fmt::format("got a {} in format_map, expected a dict", type_name(map)));
  std::vector<NamedValue> named;
  for (const auto& [key, value] : map.dict().items) {
    if (key.is(Kind::string)) named.emplace_back(key.text().view(), value);
  }
  Arguments inner("format_map", {}, named);
  return format_braces(c, self, inner);
}

Value index_of(Context& c, const Value& self, Arguments& a) {
  const Value& what = a.need(0, "");
  const auto& items = self.list().items;
  const auto length = static_cast<std::int64_t>(items.size());
  const auto clamp = [&](std::int64_t i) { return i < 0 ? std::max<std::int64_t>(i + length, 0) : i; };
  const std::int64_t from = clamp(a.whole(1, "", 0)), to = std::min(clamp(a.whole(2, "", length)), length);
  a.done();
  for (std::int64_t i = from; i < to; ++i) {
    if (c.budget.equal(items[static_cast<std::size_t>(i)], what)) return Value::integer(i);
  }
  refuse("got a value that is not in the list, expected one that is");
}

Value count_of(Context& c, const Value& self, Arguments& a) {
  const Value& what = a.need(0, "");
  a.done();
  const auto& items = self.list().items;
  return Value::integer(std::count_if(items.begin(), items.end(), [&](const Value& v) { return c.budget.equal(v, what); }));
}

Value copy_of(Context& c, const Value& self, Arguments& a) {
  a.done();
  if (self.is(Kind::list)) return c.budget.list(self.list().items, self.list().flavour);
  return c.budget.dict(self.dict().items);
}

Value dict_get(Context& c, const Value& self, Arguments& a) {
  const Value& key = a.need(0, "");
  const Value* absent = a.get(1, "");
  a.done();
  if (!hashable(key)) refuse(fmt::format("got a {} as a key, expected a hashable value", type_name(key)));
  if (const Value* v = find_key(c, self.dict(), key)) return *v;
  return absent ? *absent : Value();
}

Value dict_view(Context& c, const Value& self, Arguments& a, Flavour flavour) {
  a.done();
  std::vector<Value> items;
  items.reserve(self.dict().items.size());
  for (const auto& [key, value] : self.dict().items) {
    if (flavour == Flavour::items) {
      items.push_back(c.budget.list({key, value}, Flavour::tuple));
    } else {
      items.push_back(flavour == Flavour::keys ? key : value);
    }
  }
  return c.budget.list(std::move(items), flavour);
}

Value loop_cycle(Context&, const Value& self, Arguments& a) {
  if (a.size() == 0) refuse("got nothing to cycle through, expected values");
  const auto index = static_cast<std::size_t>(self.as<LoopCell>().index0) % a.size();
  a.get(a.size() - 1, "");
  a.done();
  return a.positional()[index];
}

Value loop_changed(Context& c, const Value& self, Arguments& a) {
  LoopCell& loop = self.as<LoopCell>();
  if (a.size()) a.get(a.size() - 1, "");
  a.done();
  for (const Value& v : a.positional()) {
    if (depth_of(v) > 8) refuse("got a deep value in loop.changed, expected a plain one", Code::unsupported);
    if (v.kind() >= Kind::name_space) refuse("got an object in loop.changed, expected a plain value", Code::unsupported);
  }
  const Value now = c.budget.list({a.positional().begin(), a.positional().end()}, Flavour::tuple);
  if (loop.has_last && c.budget.equal(loop.last, now)) return Value::boolean(false);
  loop.has_last = true;
  loop.last = now;
  return Value::boolean(true);
}

Value cycler_next(Context&, const Value& self, Arguments& a) {
  a.done();
  CyclerCell& cycler = self.as<CyclerCell>();
  const auto& items = cycler.items.list().items;
  const Value v = items[cycler.position];
  cycler.position = (cycler.position + 1) % items.size();
  return v;
}

Value cycler_reset(Context&, const Value& self, Arguments& a) {
  a.done();
  self.as<CyclerCell>().position = 0;
  return {};
}

struct Entry {
  Kind kind;
  std::string_view name;
  Method method;  // null: exists in Python, not for templates
};

constexpr Entry kMethods[] = {
    {Kind::string, "strip", [](Context& c, const Value& s, Arguments& a) { return strip_method(c, s, a, true, true); }},
    {Kind::string, "lstrip", [](Context& c, const Value& s, Arguments& a) { return strip_method(c, s, a, true, false); }},
    {Kind::string, "rstrip", [](Context& c, const Value& s, Arguments& a) { return strip_method(c, s, a, false, true); }},
    {Kind::string, "split", [](Context& c, const Value& s, Arguments& a) { return split_method(c, s, a, false); }},
    {Kind::string, "rsplit", [](Context& c, const Value& s, Arguments& a) { return split_method(c, s, a, true); }},
    {Kind::string, "splitlines", splitlines_method},
    {Kind::string, "startswith", [](Context& c, const Value& s, Arguments& a) { return affix_method(c, s, a, true); }},
    {Kind::string, "endswith", [](Context& c, const Value& s, Arguments& a) { return affix_method(c, s, a, false); }},
    {Kind::string, "replace", replace_method},
    {Kind::string, "upper", [](Context& c, const Value& s, Arguments& a) { return case_method(c, s, a, 'u'); }},
    {Kind::string, "lower", [](Context& c, const Value& s, Arguments& a) { return case_method(c, s, a, 'l'); }},
    {Kind::string, "title", [](Context& c, const Value& s, Arguments& a) { return case_method(c, s, a, 't'); }},
    {Kind::string, "capitalize", [](Context& c, const Value& s, Arguments& a) { return case_method(c, s, a, 'c'); }},
    {Kind::string, "swapcase", [](Context& c, const Value& s, Arguments& a) { return case_method(c, s, a, 's'); }},
    {Kind::string, "casefold", [](Context& c, const Value& s, Arguments& a) { return case_method(c, s, a, 'l'); }},
    {Kind::string, "find", [](Context& c, const Value& s, Arguments& a) { return find_method_of(c, s, a, false, false); }},
    {Kind::string, "rfind", [](Context& c, const Value& s, Arguments& a) { return find_method_of(c, s, a, true, false); }},
    {Kind::string, "index", [](Context& c, const Value& s, Arguments& a) { return find_method_of(c, s, a, false, true); }},
    {Kind::string, "rindex", [](Context& c, const Value& s, Arguments& a) { return find_method_of(c, s, a, true, true); }},
    {Kind::string, "count", count_method},
    {Kind::string, "join", join_method},
    {Kind::string, "format", format_method},
    {Kind::string, "format_map", format_map_method},
    {Kind::string, "ljust", [](Context& c, const Value& s, Arguments& a) { return pad_method(c, s, a, 'l'); }},
    {Kind::string, "rjust", [](Context& c, const Value& s, Arguments& a) { return pad_method(c, s, a, 'r'); }},
    {Kind::string, "center", [](Context& c, const Value& s, Arguments& a) { return pad_method(c, s, a, 'c'); }},
    {Kind::string, "zfill", [](Context& c, const Value& s, Arguments& a) { return pad_method(c, s, a, 'z'); }},
    {Kind::string, "partition", [](Context& c, const Value& s, Arguments& a) { return partition_method(c, s, a, false); }},
    {Kind::string, "rpartition", [](Context& c, const Value& s, Arguments& a) { return partition_method(c, s, a, true); }},
    {Kind::string, "removeprefix", [](Context& c, const Value& s, Arguments& a) { return remove_method(c, s, a, true); }},
    {Kind::string, "removesuffix", [](Context& c, const Value& s, Arguments& a) { return remove_method(c, s, a, false); }},
    {Kind::string, "expandtabs", expandtabs_method},
    {Kind::string, "isalpha", [](Context& c, const Value& s, Arguments& a) { return all_method(c, s, a, is_alpha); }},
    {Kind::string, "isalnum", [](Context& c, const Value& s, Arguments& a) { return all_method(c, s, a, is_alnum); }},
    {Kind::string, "isdigit", [](Context& c, const Value& s, Arguments& a) { return all_method(c, s, a, is_digit); }},
    {Kind::string, "isdecimal", [](Context& c, const Value& s, Arguments& a) { return all_method(c, s, a, is_decimal); }},
    {Kind::string, "isnumeric", [](Context& c, const Value& s, Arguments& a) { return all_method(c, s, a, is_numeric); }},
    {Kind::string, "isspace", [](Context& c, const Value& s, Arguments& a) { return all_method(c, s, a, is_space); }},
    {Kind::string, "isascii",
     [](Context&, const Value& s, Arguments& a) {
       a.done();
       return Value::boolean(s.text().ascii());
     }},
    {Kind::string, "isprintable",
     [](Context& c, const Value& s, Arguments& a) {
       return s.text().empty() ? Value::boolean(true) : all_method(c, s, a, is_printable);
     }},
    {Kind::string, "islower", [](Context& c, const Value& s, Arguments& a) { return cased_method(c, s, a, 'l'); }},
    {Kind::string, "isupper", [](Context& c, const Value& s, Arguments& a) { return cased_method(c, s, a, 'u'); }},
    {Kind::string, "istitle", [](Context& c, const Value& s, Arguments& a) { return cased_method(c, s, a, 't'); }},
    {Kind::list, "index", index_of},
    {Kind::list, "count", count_of},
    {Kind::list, "copy", copy_of},
    {Kind::list, "append", nullptr},
    {Kind::list, "clear", nullptr},
    {Kind::list, "pop", nullptr},
    {Kind::list, "reverse", nullptr},
    {Kind::list, "insert", nullptr},
    {Kind::list, "sort", nullptr},
    {Kind::list, "extend", nullptr},
    {Kind::list, "remove", nullptr},
    {Kind::dict, "get", dict_get},
    {Kind::dict, "items", [](Context& c, const Value& s, Arguments& a) { return dict_view(c, s, a, Flavour::items); }},
    {Kind::dict, "keys", [](Context& c, const Value& s, Arguments& a) { return dict_view(c, s, a, Flavour::keys); }},
    {Kind::dict, "values", [](Context& c, const Value& s, Arguments& a) { return dict_view(c, s, a, Flavour::values); }},
    {Kind::dict, "copy", copy_of},
    {Kind::dict, "clear", nullptr},
    {Kind::dict, "pop", nullptr},
    {Kind::dict, "popitem", nullptr},
    {Kind::dict, "setdefault", nullptr},
    {Kind::dict, "update", nullptr},
    {Kind::loop, "cycle", loop_cycle},
    {Kind::loop, "changed", loop_changed},
    {Kind::cycler, "next", cycler_next},
    {Kind::cycler, "reset", cycler_reset},
};

}  // namespace

int find_method(const Value& self, std::string_view name, bool& unsafe) noexcept {
  unsafe = false;
  for (std::size_t i = 0; i < std::size(kMethods); ++i) {
    const Entry& entry = kMethods[i];
    if (entry.kind != self.kind() || entry.name != name) continue;
    if (self.is(Kind::list)) {
      const Flavour flavour = self.list().flavour;
      const bool list = flavour == Flavour::list;
      const bool both = list || flavour == Flavour::tuple || flavour == Flavour::range;
      if (name == "index" || name == "count" ? !both : !list) return -1;
    }
    unsafe = entry.method == nullptr;
    return static_cast<int>(i);
  }
  return -1;
}

std::string_view method_name(int id) noexcept { return kMethods[id].name; }

Value call_method(Context& context, int id, const Value& self, Arguments& arguments) {
  Value result = kMethods[id].method(context, self, arguments);
  if (self.markup() && result.is(Kind::string) && !result.markup()) return context.budget.text(result.text(), true);
  return result;
}

}  // namespace dsv31::inline v1::text::jinja
