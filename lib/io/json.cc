#include "lib/io/json.h"

#include <fmt/format.h>

#include <cmath>

#include "lib/io/bytes.h"
#include "lib/io/json_events.h"
#include "lib/io/name_index.h"

namespace dsv31::inline v1::io {

namespace {

class Builder final : public JsonEvents {
 public:
  Builder(std::string_view where, const JsonLimits& limits) : where_(where), limits_(limits) {}

  void null() override { put(Json()); }
  void boolean(bool v) override { put(Json(v)); }
  void integer(std::int64_t v) override { put(Json(v)); }
  void unsigned_integer(std::uint64_t v) override { put(Json(v)); }
  void number(double v) override { put(Json(v)); }
  void string(std::string& v) override { put(Json(std::move(v))); }
  void key(std::string& name) override { open_.back()->as_object().emplace_back(std::move(name), Json()); }
  void start_object() override { open_.push_back(put(Json(Json::Object()))); }
  void start_array() override { open_.push_back(put(Json(Json::Array()))); }
  void end_object() override {
    if (!limits_.allow_duplicate_keys) refuse_duplicates(open_.back()->as_object());
    open_.pop_back();
  }
  void end_array() override { open_.pop_back(); }

  Json take() { return std::move(root_); }

 private:
  // A pointer in open_ stays valid: only the innermost container grows, and what it holds is closed by then.
  Json* put(Json v) {
    if (open_.empty()) {
      root_ = std::move(v);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.as_array().push_back(std::move(v));
      return &parent.as_array().back();
    }
    Json& member = parent.as_object().back().second;
    member = std::move(v);
    return &member;
  }

  void refuse_duplicates(const Json::Object& object) const {
    const auto refuse = [&](std::string_view name) {
      throw Error(
          Code::format, where_,
          fmt::format("{}: got this key twice in the object that ends at byte {}, expected it once", quoted(name), offset()));
    };
    if (object.size() <= 8) {  // most objects: no table
      for (std::size_t i = 1; i < object.size(); ++i)
        for (std::size_t j = 0; j < i; ++j)
          if (object[i].first == object[j].first) refuse(object[i].first);
      return;
    }
    NameIndex names;
    names.reserve(object.size());
    const auto name_of = [&](std::uint32_t i) -> std::string_view { return object[i].first; };
    for (std::uint32_t i = 0; i < object.size(); ++i)
      if (names.insert(object[i].first, i, name_of, where_) != NameIndex::kNone) refuse(object[i].first);
  }

  std::string_view where_;
  const JsonLimits& limits_;
  Json root_;
  std::vector<Json*> open_;
};

[[noreturn]] void wrong(std::string_view key, const std::string& got, std::string_view expected) {
  throw Error(Code::format, "json", fmt::format("{}: got {}, expected {}", quoted(key), got, expected));
}

std::string shown(const Json& v) {
  if (v.is_bool()) return v.as_bool() ? "true" : "false";
  if (v.is_int()) return fmt::format("{}", v.as_int());
  if (v.is_uint()) return fmt::format("{}", v.as_uint());
  if (v.is_double()) return fmt::format("{}", v.as_double());
  return std::string(v.kind());
}

const Json* present(const Json& object, std::string_view key) {
  const Json* v = object.find(key);
  return v == nullptr || v->is_null() ? nullptr : v;
}

const Json& required(const Json& object, std::string_view key, std::string_view expected) {
  if (const Json* v = present(object, key)) return *v;
  wrong(key, "nothing", expected);
}

template <class T>
const T& unwrap(const T* v, const Json& from, std::string_view expected) {
  if (v == nullptr) throw Error(Code::format, "json", fmt::format("value: got {}, expected {}", from.kind(), expected));
  return *v;
}

}  // namespace

Json::Json(std::uint64_t v) {
  if (v <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    value_ = static_cast<std::int64_t>(v);
  else
    value_ = v;
}

std::string_view Json::kind() const noexcept {
  constexpr std::string_view names[] = {"null", "boolean", "integer", "integer", "number", "string", "array", "object"};
  return names[value_.index()];
}

bool Json::as_bool() const { return unwrap(std::get_if<bool>(&value_), *this, "a boolean"); }
std::int64_t Json::as_int() const { return unwrap(std::get_if<std::int64_t>(&value_), *this, "an integer below 2^63"); }
std::uint64_t Json::as_uint() const {
  if (const auto* v = std::get_if<std::int64_t>(&value_); v != nullptr && *v >= 0) return static_cast<std::uint64_t>(*v);
  return unwrap(std::get_if<std::uint64_t>(&value_), *this, "an integer that is not negative");
}
double Json::as_double() const {
  if (const auto* v = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*v);
  if (const auto* v = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*v);
  return unwrap(std::get_if<double>(&value_), *this, "a number");
}
const std::string& Json::as_string() const { return unwrap(std::get_if<std::string>(&value_), *this, "a string"); }
const Json::Array& Json::as_array() const { return unwrap(std::get_if<Array>(&value_), *this, "an array"); }
const Json::Object& Json::as_object() const { return unwrap(std::get_if<Object>(&value_), *this, "an object"); }
Json::Array& Json::as_array() { return const_cast<Array&>(std::as_const(*this).as_array()); }
Json::Object& Json::as_object() { return const_cast<Object&>(std::as_const(*this).as_object()); }

const Json* Json::find(std::string_view key) const noexcept {
  const auto* object = std::get_if<Object>(&value_);
  if (object == nullptr) return nullptr;
  for (std::size_t i = object->size(); i-- > 0;)
    if ((*object)[i].first == key) return &(*object)[i].second;
  return nullptr;
}

std::int64_t Json::get_int(std::string_view key, std::int64_t min, std::int64_t max) const {
  const Json& v = required(*this, key, "an integer");
  if (!v.is_int() || v.as_int() < min || v.as_int() > max) wrong(key, shown(v), fmt::format("an integer in [{}, {}]", min, max));
  return v.as_int();
}

double Json::get_float(std::string_view key) const {
  return get_float(key, -std::numeric_limits<double>::max(), std::numeric_limits<double>::max());
}

double Json::get_float(std::string_view key, double min, double max) const {
  const Json& v = required(*this, key, "a number");
  if (!v.is_number() || !(v.as_double() >= min && v.as_double() <= max))
    wrong(key, shown(v), fmt::format("a number in [{}, {}]", min, max));
  return v.as_double();
}

bool Json::get_bool(std::string_view key) const {
  const Json& v = required(*this, key, "a boolean");
  if (!v.is_bool()) wrong(key, shown(v), "a boolean");
  return v.as_bool();
}

const std::string& Json::get_string(std::string_view key) const {
  const Json& v = required(*this, key, "a string");
  if (!v.is_string()) wrong(key, shown(v), "a string");
  return v.as_string();
}

const Json::Array& Json::get_array(std::string_view key) const {
  const Json& v = required(*this, key, "an array");
  if (!v.is_array()) wrong(key, shown(v), "an array");
  return v.as_array();
}

const Json& Json::get_object(std::string_view key) const {
  const Json& v = required(*this, key, "an object");
  if (!v.is_object()) wrong(key, shown(v), "an object");
  return v;
}

std::int64_t Json::int_or(std::string_view key, std::int64_t absent, std::int64_t min, std::int64_t max) const {
  return present(*this, key) ? get_int(key, min, max) : absent;
}
double Json::float_or(std::string_view key, double absent) const { return present(*this, key) ? get_float(key) : absent; }
double Json::float_or(std::string_view key, double absent, double min, double max) const {
  return present(*this, key) ? get_float(key, min, max) : absent;
}
bool Json::bool_or(std::string_view key, bool absent) const { return present(*this, key) ? get_bool(key) : absent; }
std::string Json::string_or(std::string_view key, std::string_view absent) const {
  return present(*this, key) ? get_string(key) : std::string(absent);
}

Json parse_json(std::string_view text, std::string_view where, const JsonLimits& limits) {
  Builder builder(where, limits);
  parse_json_events(text, where, limits, builder);
  return builder.take();
}

}  // namespace dsv31::inline v1::io
