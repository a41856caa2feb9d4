#include "lib/text/jinja_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace dsv31::inline v1::text::jinja {
namespace {

constexpr std::size_t kIndexedFrom = 12;  // smaller dicts are searched

// -1, 0, 1, or 2 for a NaN. An integer and a double are compared without rounding the integer.
int compare_numbers(const Value& a, const Value& b) noexcept {
  if (a.is_whole() && b.is_whole()) return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int();
  if (!a.is_whole() && !b.is_whole()) {
    const double x = a.as_double(), y = b.as_double();
    if (std::isnan(x) || std::isnan(y)) return 2;
    return x < y ? -1 : x > y;
  }
  if (!a.is_whole()) {
    const int c = compare_numbers(b, a);
    return c == 2 ? 2 : -c;
  }
  const double y = b.as_double();
  if (std::isnan(y)) return 2;
  if (y >= 9223372036854775808.0) return -1;
  if (y < -9223372036854775808.0) return 1;
  const std::int64_t floor = static_cast<std::int64_t>(std::floor(y));
  if (a.as_int() != floor) return a.as_int() < floor ? -1 : 1;
  return y > std::floor(y) ? -1 : 0;
}

bool sequence(const Value& v) noexcept {
  if (!v.is(Kind::list)) return false;
  const Flavour f = v.list().flavour;
  return f == Flavour::list || f == Flavour::tuple || f == Flavour::range;
}

bool equal_dicts(const DictCell& a, const DictCell& b, std::int64_t& steps) {
  if (a.items.size() != b.items.size()) return false;
  for (const auto& [key, value] : a.items) {
    const Value* other = b.find(key);
    if (!other || !equal(value, *other, steps)) return false;
  }
  return true;
}

[[noreturn, gnu::noinline]] void no_order(const Value& a, const Value& b) {
  refuse(fmt::format("got an order of {} and {}, expected two numbers, strings or lists", type_name(a), type_name(b)));
}

}  // namespace

void refuse(std::string what, Code code) { throw Fault{code, std::move(what)}; }

const Value* DictCell::find(std::string_view key) const {
  if (items.size() < kIndexedFrom) {
    for (const auto& [k, v] : items) {
      if (k.is(Kind::string) && k.text().view() == key) return &v;
    }
    return nullptr;
  }
  if (index_.empty()) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (items[i].first.is(Kind::string)) index_.emplace(items[i].first.text().view(), i);
    }
  }
  const auto it = index_.find(key);
  return it == index_.end() ? nullptr : &items[it->second].second;
}

const Value* DictCell::find(const Value& key) const {
  if (key.is(Kind::string)) return find(key.text().view());
  std::int64_t steps = 0;
  for (const auto& [k, v] : items) {
    if (equal(k, key, steps)) return &v;
  }
  return nullptr;
}

Value* NamespaceCell::find(std::string_view key) {
  for (auto& [k, v] : items) {
    if (k.text().view() == key) return &v;
  }
  return nullptr;
}

int depth_of(const Value& v) noexcept {
  switch (v.kind()) {
    case Kind::list:
      return v.list().depth;
    case Kind::dict:
      return v.dict().depth;
    case Kind::method:
      return v.as<MethodCell>().depth;
    case Kind::cycler:
      return depth_of(v.as<CyclerCell>().items) + 1;
    case Kind::loop:
      return v.as<LoopCell>().source->depth + 1;
    case Kind::joiner:
      return depth_of(v.as<JoinerCell>().separator) + 1;
    default:
      return 0;
  }
}

std::string_view type_name(const Value& v) noexcept {
  switch (v.kind()) {
    case Kind::undefined:
      return "undefined";
    case Kind::none:
      return "none";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::floating:
      return "float";
    case Kind::string:
      return "str";
    case Kind::list:
      switch (v.list().flavour) {
        case Flavour::list:
          return "list";
        case Flavour::tuple:
          return "tuple";
        case Flavour::range:
          return "range";
        case Flavour::keys:
          return "dict_keys";
        case Flavour::values:
          return "dict_values";
        case Flavour::items:
          return "dict_items";
        case Flavour::generator:
          return "generator";
      }
      return "list";
    case Kind::dict:
      return "dict";
    case Kind::name_space:
      return "namespace";
    case Kind::macro:
      return "macro";
    case Kind::loop:
      return "loop";
    case Kind::function:
    case Kind::method:
      return "function";
    case Kind::cycler:
      return "cycler";
    case Kind::joiner:
      return "joiner";
  }
  return "object";
}

bool truth(const Value& v) noexcept {
  switch (v.kind()) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return v.as_int() != 0;
    case Kind::floating:
      return v.as_double() != 0;
    case Kind::string:
      return !v.text().empty();
    case Kind::list:
      return v.list().flavour == Flavour::generator || !v.list().items.empty();
    case Kind::dict:
      return !v.dict().items.empty();
    default:
      return true;
  }
}

bool hashable(const Value& v) noexcept {
  if (v.is(Kind::dict)) return false;
  if (!v.is(Kind::list)) return true;
  const ListCell& list = v.list();
  if (list.flavour == Flavour::list || list.flavour == Flavour::keys || list.flavour == Flavour::items) return false;
  return list.flavour != Flavour::tuple ||
         std::all_of(list.items.begin(), list.items.end(), [](const Value& x) { return hashable(x); });
}

bool same_object(const Value& a, const Value& b) noexcept {
  if (a.kind() != b.kind()) return false;
  if (a.cell() || b.cell()) return a.cell() == b.cell();
  return a.is(Kind::floating) ? false : a.as_int() == b.as_int();
}

bool equal(const Value& a, const Value& b, std::int64_t& steps) {
  ++steps;
  if (a.is(Kind::undefined) || b.is(Kind::undefined)) return a.kind() == b.kind();
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::none:
      return true;
    case Kind::string:
      steps += static_cast<std::int64_t>(std::min(a.text().size(), b.text().size()) / 64);
      return a.text().view() == b.text().view();
    case Kind::list: {
      if (a.cell() == b.cell()) return true;
      const ListCell &x = a.list(), &y = b.list();
      if (!sequence(a) || x.flavour != y.flavour || x.items.size() != y.items.size()) return false;
      for (std::size_t i = 0; i < x.items.size(); ++i) {
        if (!equal(x.items[i], y.items[i], steps)) return false;
      }
      return true;
    }
    case Kind::dict:
      return a.cell() == b.cell() || equal_dicts(a.dict(), b.dict(), steps);
    case Kind::method: {
      const MethodCell &x = a.as<MethodCell>(), &y = b.as<MethodCell>();
      return x.id == y.id && same_object(x.self, y.self);
    }
    default:
      return a.cell() == b.cell();
  }
}

bool less(const Value& a, const Value& b, std::int64_t& steps) {
  ++steps;
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == -1;
  if (a.is(Kind::string) && b.is(Kind::string)) {
    steps += static_cast<std::int64_t>(std::min(a.text().size(), b.text().size()) / 64);
    return a.text().view() < b.text().view();  // UTF-8 keeps the order of code points
  }
  if (a.is(Kind::list) && b.is(Kind::list) && a.list().flavour == b.list().flavour &&
      (a.list().flavour == Flavour::list || a.list().flavour == Flavour::tuple)) {
    const auto &x = a.list().items, &y = b.list().items;
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!equal(x[i], y[i], steps)) return less(x[i], y[i], steps);
    }
    return x.size() < y.size();
  }
  no_order(a, b);
}

}  // namespace dsv31::inline v1::text::jinja
