#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/text/jinja_natives.h"
#include "lib/text/jinja_print.h"

namespace dsv31::inline v1::text::jinja {
namespace {

[[noreturn]] void no_operator(Context& context, std::string_view op, const Value& a, const Value& b) {
  if (a.is(Kind::undefined)) use_undefined(context, a);
  if (b.is(Kind::undefined)) use_undefined(context, b);
  refuse(fmt::format("got {} {} {}, expected operands that fit", type_name(a), op, type_name(b)));
}

[[noreturn]] void too_large() { refuse("got an integer beyond 64 bits, expected a smaller result", Code::limit); }

enum class Whole { add, subtract, multiply };

Value whole_result(Whole op, std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  const bool overflow = op == Whole::add        ? __builtin_add_overflow(a, b, &r)
                        : op == Whole::subtract ? __builtin_sub_overflow(a, b, &r)
                                                : __builtin_mul_overflow(a, b, &r);
  if (overflow) too_large();
  return Value::integer(r);
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (b == -1) return whole_result(Whole::subtract, 0, a).as_int();
  return a / b - ((a % b != 0) && ((a % b < 0) != (b < 0)));
}

std::int64_t floor_modulo(std::int64_t a, std::int64_t b) {
  if (b == -1) return 0;
  const std::int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

double float_modulo(double a, double b) {
  double r = std::fmod(a, b);
  if (r != 0) {
    if ((r < 0) != (b < 0)) r += b;
  } else {
    r = std::copysign(0.0, b);
  }
  return r;
}

Value power(const Value& a, const Value& b) {
  if (a.is_whole() && b.is_whole() && b.as_int() >= 0) {
    std::int64_t result = 1, base = a.as_int();
    for (std::int64_t n = b.as_int(); n > 0; n >>= 1) {
      if (n & 1 && __builtin_mul_overflow(result, base, &result)) too_large();
      if (n > 1 && __builtin_mul_overflow(base, base, &base)) too_large();
    }
    return Value::integer(result);
  }
  const double x = a.as_double(), y = b.as_double();
  if (x == 0 && y < 0) refuse("got zero to a negative power, expected another base");
  if (x < 0 && y != std::floor(y)) refuse("got a negative number to a fractional power, expected a real result");
  const double result = std::pow(x, y);
  if (std::isinf(result) && std::isfinite(x) && std::isfinite(y))
    refuse("got a power beyond the range of numbers, expected a smaller one");
  return Value::floating(result);
}

Value repeat(Context& context, const Value& v, std::int64_t count) {
  const auto n = static_cast<std::size_t>(std::max<std::int64_t>(count, 0));
  if (v.is(Kind::string)) {
    context.budget.room(n, v.text().size());
    Text out;
    out.reserve(n * v.text().size());
    if (!v.text().empty()) {
      for (std::size_t i = 0; i < n; ++i) out.append(v.text());
    }
    return context.budget.text(std::move(out), v.markup());
  }
  const ListCell& list = v.list();
  context.budget.room(n, list.items.size() * sizeof(Value));
  std::vector<Value> items;
  items.reserve(n * list.items.size());
  if (!list.items.empty()) {
    for (std::size_t i = 0; i < n; ++i) items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return context.budget.list(std::move(items), list.flavour);
}

bool repeatable(const Value& v) {
  return v.is(Kind::string) || (v.is(Kind::list) && (v.list().flavour == Flavour::list || v.list().flavour == Flavour::tuple));
}

}  // namespace

void use_undefined(const Context& context, const Value& v) {
  std::string name;
  if (v.lack_name() >= 0 && static_cast<std::size_t>(v.lack_name()) < context.names.size()) {
    name = " '" + context.names[static_cast<std::size_t>(v.lack_name())].substr(0, 40) + "'";
  }
  switch (v.lack()) {
    case Lack::name:
      refuse(fmt::format("got the undefined variable{}, expected one that is set", name), Code::format);
    case Lack::unsafe:
      refuse(fmt::format("got the attribute{}, which templates may not use, expected plain data", name), Code::format);
    case Lack::attribute:
      refuse(fmt::format("got no attribute{}, expected data that has it", name));
    case Lack::element:
      break;
  }
  refuse("got an undefined value, expected an element that exists");
}

const Text* text_like(const Value& v) noexcept {
  if (v.is(Kind::string)) return &v.text();
  if (v.is(Kind::dict) && v.dict().source.is(Kind::string)) return &v.dict().source.text();
  return nullptr;
}

Text escaped_str(Context& context, const Value& v, bool escape) {
  Text text = str(context.budget, v);
  return escape && !v.markup() ? escape_html(context.budget, text) : text;
}

Value add(Context& context, const Value& a, const Value& b) {
  if (a.is_whole() && b.is_whole()) return whole_result(Whole::add, a.as_int(), b.as_int());
  if (a.is_number() && b.is_number()) return Value::floating(a.as_double() + b.as_double());
  if (a.is(Kind::string) || b.is(Kind::string)) {
    const Text *x = text_like(a), *y = text_like(b);
    if (!x || !y) no_operator(context, "+", a, b);
    const bool markup = a.markup() || b.markup();
    context.budget.room(x->size() + y->size());
    Text out;
    out.reserve(x->size() + y->size());
    if (markup) {
      out.append(escaped_str(context, a, true));
      out.append(escaped_str(context, b, true));
    } else {
      out.append(*x);
      out.append(*y);
    }
    return context.budget.text(std::move(out), markup);
  }
  if (a.is(Kind::list) && b.is(Kind::list) && repeatable(a) && a.list().flavour == b.list().flavour) {
    std::vector<Value> items;
    items.reserve(a.list().items.size() + b.list().items.size());
    items.insert(items.end(), a.list().items.begin(), a.list().items.end());
    items.insert(items.end(), b.list().items.begin(), b.list().items.end());
    return context.budget.list(std::move(items), a.list().flavour);
  }
  no_operator(context, "+", a, b);
}

Value arithmetic(Context& context, Arithmetic op, const Value& a, const Value& b) {
  static constexpr std::string_view kSigns[] = {"-", "*", "/", "//", "%", "**"};
  if (op == Arithmetic::modulo && a.is(Kind::string)) return format_percent(context, a, b);
  if (op == Arithmetic::multiply) {
    if (repeatable(a) && b.is_whole()) return repeat(context, a, b.as_int());
    if (repeatable(b) && a.is_whole()) return repeat(context, b, a.as_int());
  }
  if (!a.is_number() || !b.is_number()) no_operator(context, kSigns[static_cast<std::size_t>(op)], a, b);
  const bool whole = a.is_whole() && b.is_whole();
  const bool divides = op == Arithmetic::divide || op == Arithmetic::floor_divide || op == Arithmetic::modulo;
  if (divides && b.as_double() == 0) refuse("got a division by zero, expected another divisor");
  switch (op) {
    case Arithmetic::subtract:
      if (whole) return whole_result(Whole::subtract, a.as_int(), b.as_int());
      return Value::floating(a.as_double() - b.as_double());
    case Arithmetic::multiply:
      if (whole) return whole_result(Whole::multiply, a.as_int(), b.as_int());
      return Value::floating(a.as_double() * b.as_double());
    case Arithmetic::divide:
      return Value::floating(a.as_double() / b.as_double());
    case Arithmetic::floor_divide:
      if (whole) return Value::integer(floor_divide(a.as_int(), b.as_int()));
      return Value::floating(std::floor((a.as_double() - float_modulo(a.as_double(), b.as_double())) / b.as_double() + 0.5));
    case Arithmetic::modulo:
      if (whole) return Value::integer(floor_modulo(a.as_int(), b.as_int()));
      return Value::floating(float_modulo(a.as_double(), b.as_double()));
    case Arithmetic::power:
      return power(a, b);
  }
  return {};
}

Value signed_value(Context& context, const Value& a, bool minus) {
  if (a.is(Kind::undefined)) use_undefined(context, a);
  if (!a.is_number()) refuse(fmt::format("got the sign of a {}, expected a number", type_name(a)));
  if (a.is(Kind::floating)) return Value::floating(minus ? -a.as_double() : a.as_double());
  return minus ? whole_result(Whole::subtract, 0, a.as_int()) : Value::integer(a.as_int());
}

bool contains(Context& context, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::undefined:
      return false;
    case Kind::string:
      if (item.is(Kind::undefined)) use_undefined(context, item);
      if (!item.is(Kind::string)) refuse(fmt::format("got {} in str, expected a string in a string", type_name(item)));
      context.budget.spend(static_cast<std::int64_t>(container.text().size() / 16));
      return find_bytes(container.text().view(), item.text().view()) != std::string_view::npos;
    case Kind::dict:
      if (!hashable(item)) refuse(fmt::format("got {} in dict, expected a hashable value", type_name(item)));
      return find_key(context, container.dict(), item) != nullptr;
    case Kind::list: {
      ListCell& list = container.list();
      if (list.flavour != Flavour::generator) {
        return std::any_of(list.items.begin(), list.items.end(), [&](const Value& x) { return context.budget.equal(x, item); });
      }
      while (list.cursor < list.items.size()) {
        if (context.budget.equal(list.items[list.cursor++], item)) return true;
      }
      if (list.failure) throw Fault(*list.failure);
      return false;
    }
    default:
      refuse(fmt::format("got a search in {}, expected a string, list or dict", type_name(container)));
  }
}

Value concat(Context& context, std::span<const Value> items) {
  Text out;
  for (const Value& item : items) append_str(context.budget, out, item);
  return context.budget.text(std::move(out));
}

std::vector<Value> characters(Context& context, const Text& text) {
  std::vector<Value> items;
  context.budget.spend(static_cast<std::int64_t>(text.size()));
  std::size_t n = 0;
  for (std::size_t i = 0; i < text.size(); i += n) {
    n = char_size(text.view(), i);
    items.push_back(context.budget.text(text.slice(i, i + n)));
  }
  return items;
}

std::vector<Value> items_of(Context& context, const Value& v, std::string_view what) {
  switch (v.kind()) {
    case Kind::undefined:
      return {};
    case Kind::string:
      return characters(context, v.text());
    case Kind::dict: {
      std::vector<Value> keys;
      context.budget.spend(static_cast<std::int64_t>(v.dict().items.size()));
      for (const auto& [key, value] : v.dict().items) keys.push_back(key);
      return keys;
    }
    case Kind::list: {
      ListCell& list = v.list();
      context.budget.spend(static_cast<std::int64_t>(list.items.size()));
      if (list.flavour != Flavour::generator) return list.items;
      std::vector<Value> rest(list.items.begin() + static_cast<std::ptrdiff_t>(list.cursor), list.items.end());
      list.cursor = list.items.size();
      if (list.failure) throw Fault(*list.failure);
      return rest;
    }
    default:
      refuse(fmt::format("got a {} in {}, expected something to go through", type_name(v), what));
  }
}

Value generator(Context& context, std::vector<Value> items, std::shared_ptr<const Fault> failure) {
  Value v = context.budget.list(std::move(items), Flavour::generator);
  v.list().failure = std::move(failure);
  return v;
}

std::int64_t length_of(Context& context, const Value& v) {
  switch (v.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::string:
      context.budget.spend(static_cast<std::int64_t>(v.text().size() / 64));
      return static_cast<std::int64_t>(v.text().length());
    case Kind::dict:
      return static_cast<std::int64_t>(v.dict().items.size());
    case Kind::loop:
      return static_cast<std::int64_t>(v.as<LoopCell>().source->items.size());
    case Kind::list:
      if (v.list().flavour != Flavour::generator) return static_cast<std::int64_t>(v.list().items.size());
      [[fallthrough]];
    default:
      refuse(fmt::format("got the length of a {}, expected a string, list or dict", type_name(v)));
  }
}

}  // namespace dsv31::inline v1::text::jinja
