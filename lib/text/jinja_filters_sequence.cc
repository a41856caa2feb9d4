// Filters on sequences, and the table of all filters.
#include <fmt/format.h>

#include <algorithm>

#include "lib/text/jinja_filters.h"
#include "lib/text/jinja_print.h"

namespace dsv31::inline v1::text::jinja {
namespace {

// "a.b.0": the keys that lead to a part of an item; numbers are indices.
class Path {
 public:
  Path(Context& c, const Value* attribute) : context_(c) {
    if (!attribute || attribute->is(Kind::none)) return;
    if (!attribute->is(Kind::string)) {
      parts_.push_back(*attribute);
      return;
    }
    parse(attribute->text().view());
  }
  Path(Context& c, std::string_view attribute) : context_(c) { parse(attribute); }

  Value of(Value item, const Value* absent = nullptr) const {
    for (const Value& part : parts_) {
      item = get_item(context_, item, part);
      if (absent && !absent->is(Kind::none) && item.is(Kind::undefined)) item = *absent;
    }
    return item;
  }

 private:
  void parse(std::string_view s) {
    for (;;) {
      const std::size_t dot = std::min(s.find('.'), s.size());
      const std::string_view part = s.substr(0, dot);
      const bool number = !part.empty() && part.size() < 18 &&
                          std::all_of(part.begin(), part.end(), [](char ch) { return ch >= '0' && ch <= '9'; });
      std::int64_t n = 0;
      if (number) parse_int(part, 10, n);
      parts_.push_back(number ? Value::integer(n) : context_.budget.text(part));
      if (dot == s.size()) return;
      s.remove_prefix(dot + 1);
    }
  }

  Context& context_;
  std::vector<Value> parts_;
};

Value ignore_case(Context& c, const Value& v, bool case_sensitive) {
  return v.is(Kind::string) && !case_sensitive ? c.budget.text(map_case(c, v.text(), 'l'), v.markup()) : v;
}

// Items with the keys they are sorted by; stable, and from the back for reverse, as Python does it.
struct Keyed {
  std::vector<Value> keys;
  Value item;
};

void sort_keyed(Context& c, std::vector<Keyed>& items, bool reverse) {
  const auto before = [&](const Keyed& a, const Keyed& b) {
    for (std::size_t i = 0; i < a.keys.size(); ++i) {
      if (c.budget.equal(a.keys[i], b.keys[i])) continue;
      for (const Value* v : {&a.keys[i], &b.keys[i]}) {
        if (v->is(Kind::undefined)) use_undefined(c, *v);
      }
      return c.budget.less(a.keys[i], b.keys[i]);
    }
    return false;
  };
  // An order that contradicts itself (NaN) must not lead the sort astray: a merge sort stays in bounds with any order.
  std::vector<Keyed> other(items.size());
  for (std::size_t width = 1; width < items.size(); width *= 2) {
    for (std::size_t begin = 0; begin < items.size(); begin += 2 * width) {
      const std::size_t middle = std::min(begin + width, items.size()), end = std::min(begin + 2 * width, items.size());
      std::size_t i = begin, j = middle;
      for (std::size_t k = begin; k < end; ++k) {
        const bool right = i >= middle || (j < end && (reverse ? before(items[i], items[j]) : before(items[j], items[i])));
        other[k] = std::move(items[right ? j++ : i++]);
      }
    }
    items.swap(other);
  }
}

std::vector<Value> items_only(std::vector<Keyed>& keyed) {
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (Keyed& k : keyed) items.push_back(std::move(k.item));
  return items;
}

// The generator of what `produce` puts out; what it throws is thrown when the reader of the generator gets there, as in Python.
// Limits are not put off.
template <typename Produce>
Value lazily(Context& c, Produce produce) {
  std::vector<Value> out;
  try {
    produce(out);
  } catch (const Fault& fault) {
    if (fault.code == Code::limit || fault.code == Code::timeout) throw;
    return generator(c, std::move(out), std::make_shared<Fault>(fault));
  }
  return generator(c, std::move(out));
}

Value length(Context& c, const Value& v, Arguments& a) {
  a.done();
  return Value::integer(length_of(c, v));
}

Value to_list(Context& c, const Value& v, Arguments& a) {
  a.done();
  return c.budget.list(items_of(c, v, "list"));
}

Value first(Context& c, const Value& v, Arguments& a) {
  a.done();
  if (v.is(Kind::list)) {
    ListCell& list = v.list();
    const bool once = list.flavour == Flavour::generator;
    const std::size_t at = once ? list.cursor : 0;
    if (at < list.items.size()) {
      if (once) ++list.cursor;
      return list.items[at];
    }
    if (once && list.failure) throw Fault(*list.failure);
    return Value::undefined(Lack::element);
  }
  if (v.is(Kind::string) && !v.text().empty()) return c.budget.text(v.text().slice(0, char_size(v.text().view(), 0)));
  const std::vector<Value> items = items_of(c, v, "first");
  return items.empty() ? Value::undefined(Lack::element) : items.front();
}

Value last(Context& c, const Value& v, Arguments& a) {
  a.done();
  if (v.is(Kind::list) && v.list().flavour != Flavour::generator) {
    return v.list().items.empty() ? Value::undefined(Lack::element) : v.list().items.back();
  }
  if (v.is(Kind::undefined)) return Value::undefined(Lack::element);
  if (!v.is(Kind::string) && !v.is(Kind::dict)) refuse(fmt::format("got a {} in last, expected a list or string", type_name(v)));
  if (v.is(Kind::dict)) return v.dict().items.empty() ? Value::undefined(Lack::element) : v.dict().items.back().first;
  return v.text().empty() ? Value::undefined(Lack::element) : get_item(c, v, Value::integer(-1));
}

Value join(Context& c, const Value& v, Arguments& a) {
  const Value* separator = a.get(0, "d");
  const Value* attribute = a.get(1, "attribute");
  a.done();
  const Text between = separator ? str(c.budget, *separator) : Text();
  const Path path(c, attribute);
  Text out;
  bool start = true;
  for (const Value& item : items_of(c, v, "join")) {
    if (!start) out.append(between);
    append_str(c.budget, out, attribute ? path.of(item) : item);
    c.budget.grow(out, between.size());
    start = false;
  }
  return c.budget.text(std::move(out));
}

Value items(Context& c, const Value& v, Arguments& a) {
  a.done();
  return lazily(c, [&](std::vector<Value>& out) {
    if (v.is(Kind::undefined)) return;
    if (!v.is(Kind::dict)) refuse(fmt::format("got a {} in items, expected a dict", type_name(v)));
    for (const auto& [key, value] : v.dict().items) out.push_back(c.budget.list({key, value}, Flavour::tuple));
  });
}

Value dictsort(Context& c, const Value& v, Arguments& a) {
  const bool case_sensitive = a.flag(0, "case_sensitive", false);
  const Value* by = a.get(1, "by");
  const bool reverse = a.flag(2, "reverse", false);
  a.done();
  const std::string_view what = by ? need_string(*by, "dictsort").text().view() : "key";
  if (what != "key" && what != "value") refuse("got another order in dictsort, expected key or value");
  if (v.is(Kind::undefined)) use_undefined(c, v);
  if (!v.is(Kind::dict)) refuse(fmt::format("got a {} in dictsort, expected a dict", type_name(v)));
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : v.dict().items) {
    keyed.push_back({{ignore_case(c, what == "key" ? key : value, case_sensitive)}, c.budget.list({key, value}, Flavour::tuple)});
  }
  sort_keyed(c, keyed, reverse);
  return c.budget.list(items_only(keyed));
}

Value sort(Context& c, const Value& v, Arguments& a) {
  const bool reverse = a.flag(0, "reverse", false), case_sensitive = a.flag(1, "case_sensitive", false);
  const Value* attribute = a.get(2, "attribute");
  a.done();
  std::vector<Path> paths;
  if (attribute && attribute->is(Kind::string)) {
    std::string_view s = attribute->text().view();
    for (;;) {
      const std::size_t comma = std::min(s.find(','), s.size());
      paths.emplace_back(c, s.substr(0, comma));
      if (comma == s.size()) break;
      s.remove_prefix(comma + 1);
    }
  } else {
    paths.emplace_back(c, attribute);
  }
  std::vector<Keyed> keyed;
  for (Value& item : items_of(c, v, "sort")) {
    std::vector<Value> keys;
    for (const Path& path : paths) keys.push_back(ignore_case(c, path.of(item), case_sensitive));
    keyed.push_back({std::move(keys), std::move(item)});
  }
  sort_keyed(c, keyed, reverse);
  return c.budget.list(items_only(keyed));
}

Value unique(Context& c, const Value& v, Arguments& a) {
  const bool case_sensitive = a.flag(0, "case_sensitive", false);
  const Path path(c, a.get(1, "attribute"));
  a.done();
  return lazily(c, [&](std::vector<Value>& out) {
    std::vector<Value> keys;
    for (const Value& item : items_of(c, v, "unique")) {
      Value key = ignore_case(c, path.of(item), case_sensitive);
      if (!hashable(key)) refuse(fmt::format("got a {} in unique, expected hashable values", type_name(key)));
      if (std::any_of(keys.begin(), keys.end(), [&](const Value& k) { return c.budget.equal(k, key); })) continue;
      keys.push_back(std::move(key));
      out.push_back(item);
    }
  });
}

Value extreme(Context& c, const Value& v, Arguments& a, bool max) {
  const bool case_sensitive = a.flag(0, "case_sensitive", false);
  const Path path(c, a.get(1, "attribute"));
  a.done();
  const std::vector<Value> list = items_of(c, v, max ? "max" : "min");
  if (list.empty()) return Value::undefined(Lack::element);
  std::size_t best = 0;
  Value best_key = ignore_case(c, path.of(list[0]), case_sensitive);
  for (std::size_t i = 1; i < list.size(); ++i) {
    Value key = ignore_case(c, path.of(list[i]), case_sensitive);
    for (const Value* x : {&key, &best_key}) {
      if (x->is(Kind::undefined)) use_undefined(c, *x);
    }
    if (max ? c.budget.less(best_key, key) : c.budget.less(key, best_key)) best = i, best_key = std::move(key);
  }
  return list[best];
}

Value sum(Context& c, const Value& v, Arguments& a) {
  const Value* attribute = a.get(0, "attribute");
  const Value* start = a.get(1, "start");
  a.done();
  const Path path(c, attribute);
  Value total = start ? *start : Value::integer(0);
  if (total.is(Kind::string)) refuse("got a string to start sum with, expected a number");
  for (const Value& item : items_of(c, v, "sum")) total = add(c, total, path.of(item));
  return total;
}

Value reverse(Context& c, const Value& v, Arguments& a) {
  a.done();
  if (v.is(Kind::string)) return get_slice(c, v, {}, {}, Value::integer(-1));
  std::vector<Value> list = items_of(c, v, "reverse");
  std::reverse(list.begin(), list.end());
  if (v.is(Kind::list) && v.list().flavour == Flavour::generator) return c.budget.list(std::move(list));
  return generator(c, std::move(list));
}

Value batch(Context& c, const Value& v, Arguments& a) {
  const std::int64_t count = a.need_whole(0, "linecount");
  const Value* fill = a.get(1, "fill_with");
  a.done();
  return lazily(c, [&](std::vector<Value>& rows) {
    std::vector<Value> row;
    for (Value& item : items_of(c, v, "batch")) {
      if (static_cast<std::int64_t>(row.size()) == count) rows.push_back(c.budget.list(std::exchange(row, {})));
      row.push_back(std::move(item));
    }
    if (row.empty()) return;
    if (fill && !fill->is(Kind::none) && count > static_cast<std::int64_t>(row.size())) {
      c.budget.room(static_cast<std::size_t>(count), sizeof(Value));
      row.resize(static_cast<std::size_t>(count), *fill);
    }
    rows.push_back(c.budget.list(std::move(row)));
  });
}

Value slice(Context& c, const Value& v, Arguments& a) {
  const std::int64_t slices = a.need_whole(0, "slices");
  const Value* fill = a.get(1, "fill_with");
  a.done();
  return lazily(c, [&](std::vector<Value>& rows) {
    const std::vector<Value> list = items_of(c, v, "slice");
    if (slices == 0) refuse("got 0 slices, expected at least one");
    if (slices < 0) return;
    c.budget.room(static_cast<std::size_t>(slices), sizeof(Value));
    const auto n = static_cast<std::int64_t>(list.size());
    const std::int64_t each = n / slices, extra = n % slices;
    std::int64_t at = 0;
    for (std::int64_t i = 0; i < slices; ++i) {
      const std::int64_t end = at + each + (i < extra ? 1 : 0);
      std::vector<Value> row(list.begin() + at, list.begin() + end);
      if (fill && !fill->is(Kind::none) && i >= extra) row.push_back(*fill);
      rows.push_back(c.budget.list(std::move(row)));
      at = end;
    }
  });
}

// One key an item is compared with `<` alone, which undefined values refuse even where they are equal.
void refuse_undefined_keys(Context& c, const std::vector<Keyed>& items) {
  for (const Keyed& item : items) {
    if (items.size() > 1 && item.keys[0].is(Kind::undefined)) use_undefined(c, item.keys[0]);
  }
}

Value groupby(Context& c, const Value& v, Arguments& a) {
  const Value& attribute = a.need(0, "attribute");
  const Value* absent = a.get(1, "default");
  const bool case_sensitive = a.flag(2, "case_sensitive", false);
  a.done();
  const Path path(c, &attribute);
  std::vector<Keyed> keyed;
  for (Value& item : items_of(c, v, "groupby")) {
    Value key = ignore_case(c, path.of(item, absent), case_sensitive);
    keyed.push_back({{std::move(key)}, std::move(item)});
  }
  refuse_undefined_keys(c, keyed);
  sort_keyed(c, keyed, false);
  std::vector<Value> groups;
  for (std::size_t i = 0; i < keyed.size();) {
    std::vector<Value> members;
    const std::size_t begin = i;
    for (; i < keyed.size() && c.budget.equal(keyed[i].keys[0], keyed[begin].keys[0]); ++i) members.push_back(keyed[i].item);
    Value key = path.of(members[0], absent);
    Value group = c.budget.list({std::move(key), c.budget.list(std::move(members))}, Flavour::tuple);
    group.list().group = true;
    groups.push_back(std::move(group));
  }
  return c.budget.list(std::move(groups));
}

Value map(Context& c, const Value& v, Arguments& a) {
  if (a.size() == 0) {
    return lazily(c, [&](std::vector<Value>& out) {
      if (!truth(v)) return;
      const Value& attribute = a.need(0, "attribute");
      const Value* absent = a.get(1, "default");
      a.done();
      const Path path(c, &attribute);
      for (const Value& item : items_of(c, v, "map")) out.push_back(path.of(item, absent));
    });
  }
  return lazily(c, [&](std::vector<Value>& out) {
    if (!truth(v)) return;
    const std::string_view name = need_string(a.need(0, ""), "map").text().view();
    const int id = find_filter(name);
    for (const Value& item : items_of(c, v, "map")) {
      if (id < 0) refuse("got an unknown filter in map, expected one that exists", Code::format);
      c.budget.spend(1);
      Arguments rest("the filter of map", a.positional().subspan(1), a.named());
      out.push_back(call_filter(c, id, item, rest));
    }
  });
}

Value choose(Context& c, const Value& v, Arguments& a, bool keep, bool by_attribute) {
  return lazily(c, [&](std::vector<Value>& out) {
    if (!truth(v)) return;
    const std::size_t offset = by_attribute ? 1 : 0;
    const Path path(c, by_attribute ? &a.need(0, "") : nullptr);
    const Value* test = a.get(offset, "");
    const int id = test ? find_test(need_string(*test, "select").text().view()) : -1;
    for (const Value& item : items_of(c, v, "select")) {
      if (test && id < 0) refuse("got an unknown test in select, expected one that exists", Code::format);
      c.budget.spend(1);
      const Value part = path.of(item);
      bool passes = truth(part);
      if (test) {
        Arguments rest("the test of select", a.positional().subspan(offset + 1), a.named());
        passes = call_test(c, id, part, rest);
      }
      if (passes == keep) out.push_back(item);
    }
  });
}

struct Entry {
  std::string_view name;
  Filter filter;
};

constexpr Entry kFilters[] = {
    {"abs", filters::absolute},
    {"attr", filters::attr},
    {"batch", batch},
    {"capitalize", filters::capitalize},
    {"center", filters::center},
    {"count", length},
    {"d", filters::default_value},
    {"default", filters::default_value},
    {"dictsort", dictsort},
    {"e", filters::escape},
    {"escape", filters::escape},
    {"first", first},
    {"float", filters::to_float},
    {"forceescape", filters::force_escape},
    {"format", filters::format},
    {"groupby", groupby},
    {"indent", filters::indent},
    {"int", filters::to_int},
    {"items", items},
    {"join", join},
    {"last", last},
    {"length", length},
    {"list", to_list},
    {"lower", filters::lower},
    {"map", map},
    {"max", [](Context& c, const Value& v, Arguments& a) { return extreme(c, v, a, true); }},
    {"min", [](Context& c, const Value& v, Arguments& a) { return extreme(c, v, a, false); }},
    {"reject", [](Context& c, const Value& v, Arguments& a) { return choose(c, v, a, false, false); }},
    {"rejectattr", [](Context& c, const Value& v, Arguments& a) { return choose(c, v, a, false, true); }},
    {"replace", filters::replace},
    {"reverse", reverse},
    {"round", filters::round},
    {"safe", filters::safe},
    {"select", [](Context& c, const Value& v, Arguments& a) { return choose(c, v, a, true, false); }},
    {"selectattr", [](Context& c, const Value& v, Arguments& a) { return choose(c, v, a, true, true); }},
    {"slice", slice},
    {"sort", sort},
    {"string", filters::string},
    {"sum", sum},
    {"title", filters::title},
    {"tojson", filters::tojson},
    {"trim", filters::trim},
    {"truncate", filters::truncate},
    {"unique", unique},
    {"upper", filters::upper},
    {"urlencode", filters::urlencode},
    {"wordcount", filters::word_count},
};

}  // namespace

int find_filter(std::string_view name) noexcept {
  for (std::size_t i = 0; i < std::size(kFilters); ++i) {
    if (kFilters[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

bool jinja2_has_filter(std::string_view name) noexcept {
  for (const std::string_view known : {"filesizeformat", "pprint", "random", "striptags", "urlize", "wordwrap", "xmlattr"}) {
    if (name == known) return true;
  }
  return false;
}

Value call_filter(Context& context, int id, const Value& input, Arguments& arguments) {
  return kFilters[id].filter(context, input, arguments);
}

}  // namespace dsv31::inline v1::text::jinja
