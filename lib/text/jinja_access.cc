// x.name, x[key] and x[a:b:c], as jinja2's sandbox finds them: x.name tries attributes before keys, x["name"] the other way
// round. Only the methods in the tables exist, so there is nothing to escape to; those that change a value are known and refused.
#include <fmt/format.h>

#include <algorithm>

#include "lib/text/jinja_natives.h"

namespace dsv31::inline v1::text::jinja {
namespace {

Value missing(Lack lack, int name_id) { return Value::undefined(lack, name_id); }

// The attribute of a loop, a namespace, a cycler or a group; false where there is none.
bool own_attribute(Context& context, const Value& object, std::string_view name, Value& out) {
  switch (object.kind()) {
    case Kind::name_space:
      if (const Value* v = object.as<NamespaceCell>().find(name)) {
        out = *v;
        return true;
      }
      return false;
    case Kind::cycler:
      if (name != "current") return false;
      out = object.as<CyclerCell>().items.list().items[object.as<CyclerCell>().position];
      return true;
    case Kind::list:
      if (!object.list().group || (name != "grouper" && name != "list")) return false;
      out = object.list().items[name == "list" ? 1 : 0];
      return true;
    case Kind::loop:
      break;
    default:
      return false;
  }
  const LoopCell& loop = object.as<LoopCell>();
  const auto length = static_cast<std::int64_t>(loop.source->items.size());
  const auto item = [&](std::int64_t i) {
    return i < 0 || i >= length ? missing(Lack::element, -1) : loop.source->items[static_cast<std::size_t>(i)];
  };
  if (name == "index") {
    out = Value::integer(loop.index0 + 1);
  } else if (name == "index0") {
    out = Value::integer(loop.index0);
  } else if (name == "first") {
    out = Value::boolean(loop.index0 == 0);
  } else if (name == "last") {
    out = Value::boolean(loop.index0 + 1 == length);
  } else if (name == "length") {
    out = Value::integer(length);
  } else if (name == "revindex") {
    out = Value::integer(length - loop.index0);
  } else if (name == "revindex0") {
    out = Value::integer(length - loop.index0 - 1);
  } else if (name == "previtem") {
    out = item(loop.index0 - 1);
  } else if (name == "nextitem") {
    out = item(loop.index0 + 1);
  } else if (name == "depth") {
    out = Value::integer(loop.depth0 + 1);
  } else if (name == "depth0") {
    out = Value::integer(loop.depth0);
  } else {
    return false;
  }
  context.budget.spend(1);
  return true;
}

// getattr() of Python under the sandbox: false where the attribute does not exist.
bool attribute(Context& context, const Value& object, std::string_view name, int name_id, Value& out) {
  if (name.starts_with("__") && name.ends_with("__")) {
    out = missing(Lack::unsafe, name_id);
    return true;
  }
  if (own_attribute(context, object, name, out)) {
    if (name.starts_with('_')) out = missing(Lack::unsafe, name_id);
    return true;
  }
  bool unsafe = false;
  const int id = find_method(object, name, unsafe);
  if (unsafe) {
    out = missing(Lack::unsafe, name_id);
    return true;
  }
  if (id < 0) return false;
  const int depth = depth_of(object) + 1;
  context.budget.check_depth(depth);
  out = Value(Kind::method, std::make_shared<MethodCell>(object, id, depth));
  return true;
}

bool subscriptable(const Value& v) {
  return v.is(Kind::list) && v.list().flavour != Flavour::generator && v.list().flavour != Flavour::keys &&
         v.list().flavour != Flavour::values && v.list().flavour != Flavour::items;
}

// The bounds of a slice of `length` items, as Python's slice.indices gives them.
struct Bounds {
  std::int64_t start, stop, step;
};

Bounds bounds(std::int64_t length, const Value& start, const Value& stop, const Value& step) {
  const auto whole = [](const Value& v, std::int64_t absent) {
    if (v.is(Kind::none)) return absent;
    if (!v.is_whole()) refuse(fmt::format("got a {} as a slice index, expected an integer", type_name(v)));
    return v.as_int();
  };
  Bounds b{};
  b.step = whole(step, 1);
  if (b.step == 0) refuse("got a slice step of 0, expected another");
  if (b.step < -length - 1) b.step = -length - 1;
  if (b.step > length + 1) b.step = length + 1;
  const std::int64_t low = b.step < 0 ? -1 : 0, high = b.step < 0 ? length - 1 : length;
  const auto clamp = [&](const Value& v, std::int64_t absent) {
    if (v.is(Kind::none)) return absent;
    std::int64_t i = whole(v, 0);
    if (i < 0) i = i < -length ? low : i + length;
    return std::clamp(i, low, std::max(low, high));
  };
  b.start = clamp(start, b.step < 0 ? high : low);
  b.stop = clamp(stop, b.step < 0 ? low : high);
  return b;
}

}  // namespace

// Keys that are no strings have no index.
const Value* find_key(Context& context, const DictCell& dict, const Value& key) {
  context.budget.spend(key.is(Kind::string) ? 1 : static_cast<std::int64_t>(dict.items.size() / 4) + 1);
  return dict.find(key);
}

Value get_attribute(Context& context, const Value& object, std::string_view name, int name_id) {
  if (object.is(Kind::undefined)) use_undefined(context, object);
  Value out;
  if (attribute(context, object, name, name_id, out)) return out;
  if (object.is(Kind::dict)) {
    if (const Value* v = object.dict().find(name)) return *v;
  }
  return missing(Lack::attribute, name_id);
}

Value get_item(Context& context, const Value& object, const Value& key) {
  if (object.is(Kind::undefined)) use_undefined(context, object);
  if (object.is(Kind::dict)) {
    if (hashable(key)) {
      if (const Value* v = find_key(context, object.dict(), key)) return *v;
    }
  } else if (key.is_whole() && (object.is(Kind::string) || subscriptable(object))) {
    const bool string = object.is(Kind::string);
    const std::int64_t length = string ? length_of(context, object) : static_cast<std::int64_t>(object.list().items.size());
    const std::int64_t i = key.as_int() < 0 ? key.as_int() + length : key.as_int();
    if (i < 0 || i >= length) return missing(Lack::element, -1);
    if (!string) return object.list().items[static_cast<std::size_t>(i)];
    const Text& text = object.text();
    const std::size_t at = text.offset(static_cast<std::size_t>(i));
    return context.budget.text(text.slice(at, at + char_size(text.view(), at)), object.markup());
  }
  Value out;
  if (key.is(Kind::string) && attribute(context, object, key.text().view(), -1, out)) return out;
  return missing(Lack::element, -1);
}

Value get_slice(Context& context, const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is(Kind::undefined)) use_undefined(context, object);
  for (const Value* v : {&start, &stop, &step}) {
    if (v->is(Kind::undefined)) use_undefined(context, *v);
  }
  if (object.is(Kind::string)) {
    const Text& text = object.text();
    const Bounds b = bounds(length_of(context, object), start, stop, step);
    if (b.step == 1) {
      const std::size_t from = text.offset(static_cast<std::size_t>(b.start));
      const std::size_t to = b.stop <= b.start ? from : text.offset(static_cast<std::size_t>(b.stop));
      return context.budget.text(text.slice(from, to), object.markup());
    }
    std::vector<std::size_t> at;  // of every character
    if (!text.ascii()) {
      context.budget.room(text.size(), sizeof(std::size_t));
      for (std::size_t i = 0; i < text.size(); i += char_size(text.view(), i)) at.push_back(i);
    }
    Text out;
    context.budget.spend(static_cast<std::int64_t>(text.size() / 8));
    for (std::int64_t i = b.start; b.step > 0 ? i < b.stop : i > b.stop; i += b.step) {
      const std::size_t from = text.ascii() ? static_cast<std::size_t>(i) : at[static_cast<std::size_t>(i)];
      out.append(text, from, from + char_size(text.view(), from));
    }
    return context.budget.text(std::move(out), object.markup());
  }
  if (!subscriptable(object)) refuse(fmt::format("got a slice of a {}, expected a string or list", type_name(object)));
  const ListCell& list = object.list();
  const Bounds b = bounds(static_cast<std::int64_t>(list.items.size()), start, stop, step);
  std::vector<Value> items;
  for (std::int64_t i = b.start; b.step > 0 ? i < b.stop : i > b.stop; i += b.step)
    items.push_back(list.items[static_cast<std::size_t>(i)]);
  Value out = context.budget.list(std::move(items), list.flavour);
  if (list.flavour == Flavour::range) {
    const auto& [first, last, stride] = list.range;
    out.list().range = {first + b.start * stride, first + b.stop * stride, stride * b.step};
  }
  return out;
}

}  // namespace dsv31::inline v1::text::jinja
