// JSON from outside: config.json, tokenizer.json, index files, tool schemas.
//
// A hostile document may be deep, wide, repeat a key or break UTF-8. nlohmann's lexer does the grammar through its SAX interface;
// our handler counts depth, values and bytes before it stores anything, so memory is bounded by the caps, and destruction
// recurses at most max_depth levels. Objects keep their order; looking up a key is linear in the object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace dsv31::inline v1::io {

struct JsonLimits {
  int max_depth = 64;                             // nested arrays and objects
  std::size_t max_bytes = std::size_t{64} << 20;  // of the text; 64 MiB
  std::size_t max_values = 4'000'000;             // of all kinds, keys not counted
  bool allow_duplicate_keys = false;              // true: all pairs are kept, find() gives the last
};

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;

  Json() = default;  // null
  Json(std::nullptr_t) {}
  Json(bool v) : value_(v) {}
  Json(int v) : value_(std::int64_t{v}) {}
  Json(std::int64_t v) : value_(v) {}
  Json(std::uint64_t v);  // stored as int64 where it fits
  Json(double v) : value_(v) {}
  Json(std::string v) : value_(std::move(v)) {}
  Json(const char* v) : value_(std::string(v)) {}
  Json(Array v) : value_(std::move(v)) {}
  Json(Object v) : value_(std::move(v)) {}

  bool is_null() const noexcept { return std::holds_alternative<std::nullptr_t>(value_); }
  bool is_bool() const noexcept { return std::holds_alternative<bool>(value_); }
  // Integers that fit int64 are stored as int64, larger ones up to 2^64 - 1 as uint64, everything else as double.
  bool is_int() const noexcept { return std::holds_alternative<std::int64_t>(value_); }
  bool is_uint() const noexcept { return std::holds_alternative<std::uint64_t>(value_); }
  bool is_double() const noexcept { return std::holds_alternative<double>(value_); }
  bool is_number() const noexcept { return is_int() || is_uint() || is_double(); }
  bool is_string() const noexcept { return std::holds_alternative<std::string>(value_); }
  bool is_array() const noexcept { return std::holds_alternative<Array>(value_); }
  bool is_object() const noexcept { return std::holds_alternative<Object>(value_); }
  std::string_view kind() const noexcept;  // "null", "boolean", "integer", "number", "string", "array", "object"

  // The caller has asked for the kind before; a wrong kind throws format.
  bool as_bool() const;
  std::int64_t as_int() const;
  std::uint64_t as_uint() const;  // of a non-negative int64 too
  double as_double() const;       // of every number
  const std::string& as_string() const;
  const Array& as_array() const;
  const Object& as_object() const;
  Array& as_array();
  Object& as_object();

  // The member of an object, null where there is none or where this is no object.
  const Json* find(std::string_view key) const noexcept;
  bool has(std::string_view key) const noexcept { return find(key) != nullptr; }

  // Members of an object by kind and range: format, naming the key, where it is absent or does not fit. A member that is
  // null counts as absent. get_float wants a finite number; integers are numbers.
  std::int64_t get_int(std::string_view key, std::int64_t min = std::numeric_limits<std::int64_t>::min(),
                       std::int64_t max = std::numeric_limits<std::int64_t>::max()) const;
  double get_float(std::string_view key) const;
  double get_float(std::string_view key, double min, double max) const;
  bool get_bool(std::string_view key) const;
  const std::string& get_string(std::string_view key) const;
  const Array& get_array(std::string_view key) const;
  const Json& get_object(std::string_view key) const;

  // The same with a value for absent or null members; a present one of the wrong kind or range still throws.
  std::int64_t int_or(std::string_view key, std::int64_t absent, std::int64_t min = std::numeric_limits<std::int64_t>::min(),
                      std::int64_t max = std::numeric_limits<std::int64_t>::max()) const;
  double float_or(std::string_view key, double absent) const;
  double float_or(std::string_view key, double absent, double min, double max) const;
  bool bool_or(std::string_view key, bool absent) const;
  std::string string_or(std::string_view key, std::string_view absent) const;

  bool operator==(const Json&) const = default;

 private:
  std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object> value_{nullptr};
};

// `where` is the surface that errors name ("config.json"). Throws format (grammar, UTF-8, duplicate key, trailing text) or limit,
// both with the byte offset.
Json parse_json(std::string_view text, std::string_view where, const JsonLimits& limits = {});

}  // namespace dsv31::inline v1::io
