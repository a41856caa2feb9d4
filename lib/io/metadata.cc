#include "lib/io/metadata.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "lib/io/bytes.h"

namespace dsv31::inline v1::io {

namespace {

constexpr std::string_view kTypeNames[kValueTypeCount] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                          "bool", "string", "array", "u64", "i64", "f64"};
constexpr std::uint8_t kTypeBytes[kValueTypeCount] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

bool is_integer(ValueType t) noexcept {
  return t != ValueType::f32 && t != ValueType::f64 && t != ValueType::boolean && t != ValueType::string && t != ValueType::array;
}
bool is_number(ValueType t) noexcept { return is_integer(t) || t == ValueType::f32 || t == ValueType::f64; }

template <class T>
T load(const std::byte* p) noexcept {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

[[noreturn]] void out_of_range(std::string_view key, const std::string& got, const std::string& expected) {
  throw Error(Code::format, "gguf", fmt::format("{}: got {}, expected {}", quoted(key), got, expected));
}

}  // namespace

std::string_view to_string(ValueType type) noexcept { return kTypeNames[static_cast<int>(type)]; }
std::size_t value_bytes(ValueType type) noexcept { return kTypeBytes[static_cast<int>(type)]; }

std::string_view Metadata::key(std::size_t i) const noexcept {
  return std::string_view(keys_).substr(static_cast<std::size_t>(entries_[i].key), entries_[i].key_bytes);
}

const Metadata::Entry* Metadata::find(std::string_view name) const noexcept {
  const std::uint32_t i = index_.find(name, [this](std::uint32_t at) { return key(at); });
  return i == NameIndex::kNone ? nullptr : &entries_[i];
}

std::string Metadata::type_name(std::string_view name) const {
  const Entry* e = find(name);
  if (e == nullptr) return {};
  return e->array ? fmt::format("array of {}", to_string(e->type)) : std::string(to_string(e->type));
}

bool Metadata::is_array(std::string_view name) const noexcept {
  const Entry* e = find(name);
  return e != nullptr && e->array;
}

std::size_t Metadata::count(std::string_view name) const noexcept {
  const Entry* e = find(name);
  return e == nullptr ? 0 : static_cast<std::size_t>(e->count);
}

void Metadata::wrong(std::string_view name, std::string_view expected) const {
  const std::string type = type_name(name);
  throw Error(Code::format, "gguf",
              fmt::format("{}: got {}, expected {}", quoted(name), type.empty() ? "no such key" : type, expected));
}

const Metadata::Entry& Metadata::get(std::string_view name, std::string_view expected) const {
  const Entry* e = find(name);
  if (e == nullptr) wrong(name, expected);
  return *e;
}

const std::byte* Metadata::element(const Entry& e, std::uint64_t i) const noexcept {
  if (!e.array) return reinterpret_cast<const std::byte*>(&e.at);
  return numbers_.data() + e.at + i * value_bytes(e.type);
}

std::int64_t Metadata::integer_at(const Entry& e, std::uint64_t i, std::string_view name, std::int64_t min,
                                  std::int64_t max) const {
  const std::byte* p = element(e, i);
  std::int64_t v = 0;
  switch (e.type) {
    case ValueType::u8:
      v = load<std::uint8_t>(p);
      break;
    case ValueType::i8:
      v = load<std::int8_t>(p);
      break;
    case ValueType::u16:
      v = load<std::uint16_t>(p);
      break;
    case ValueType::i16:
      v = load<std::int16_t>(p);
      break;
    case ValueType::u32:
      v = load<std::uint32_t>(p);
      break;
    case ValueType::i32:
      v = load<std::int32_t>(p);
      break;
    case ValueType::i64:
      v = load<std::int64_t>(p);
      break;
    case ValueType::u64: {
      const auto u = load<std::uint64_t>(p);
      if (u > static_cast<std::uint64_t>(kMax))
        out_of_range(name, fmt::format("{}", u), fmt::format("an integer in [{}, {}]", min, max));
      v = static_cast<std::int64_t>(u);
      break;
    }
    default:
      wrong(name, "an integer");
  }
  if (v < min || v > max) out_of_range(name, fmt::format("{}", v), fmt::format("an integer in [{}, {}]", min, max));
  return v;
}

double Metadata::number_at(const Entry& e, std::uint64_t i, std::string_view name) const {
  const std::byte* p = element(e, i);
  if (e.type == ValueType::f32) return static_cast<double>(load<float>(p));
  if (e.type == ValueType::f64) return load<double>(p);
  if (e.type == ValueType::u64) return static_cast<double>(load<std::uint64_t>(p));
  return static_cast<double>(integer_at(e, i, name, kMin, kMax));
}

std::int64_t Metadata::integer(std::string_view name, std::int64_t min, std::int64_t max) const {
  const Entry& e = get(name, "an integer");
  if (e.array || !is_integer(e.type)) wrong(name, "an integer");
  return integer_at(e, 0, name, min, max);
}

double Metadata::number(std::string_view name) const {
  return number(name, -std::numeric_limits<double>::max(), std::numeric_limits<double>::max());
}

double Metadata::number(std::string_view name, double min, double max) const {
  const Entry& e = get(name, "a number");
  if (e.array || !is_number(e.type)) wrong(name, "a number");
  const double v = number_at(e, 0, name);
  if (!(v >= min && v <= max)) out_of_range(name, fmt::format("{}", v), fmt::format("a number in [{}, {}]", min, max));
  return v;
}

bool Metadata::boolean(std::string_view name) const {
  const Entry& e = get(name, "a bool");
  if (e.array || e.type != ValueType::boolean) wrong(name, "a bool");
  return e.at != 0;
}

std::string_view Metadata::string(std::string_view name) const {
  const Entry& e = get(name, "a string");
  if (e.array || e.type != ValueType::string) wrong(name, "a string");
  return StringArray(text_.data(), ends_.data() + e.at, 1)[0];
}

std::vector<std::int64_t> Metadata::integers(std::string_view name, std::int64_t min, std::int64_t max) const {
  const Entry& e = get(name, "an array of integers");
  if (!e.array || !is_integer(e.type)) wrong(name, "an array of integers");
  std::vector<std::int64_t> out(static_cast<std::size_t>(e.count));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = integer_at(e, i, name, min, max);
  return out;
}

std::vector<double> Metadata::numbers(std::string_view name) const {
  const Entry& e = get(name, "an array of numbers");
  if (!e.array || !is_number(e.type)) wrong(name, "an array of numbers");
  std::vector<double> out(static_cast<std::size_t>(e.count));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = number_at(e, i, name);
    if (!std::isfinite(out[i])) out_of_range(name, fmt::format("{} at index {}", out[i], i), "finite numbers");
  }
  return out;
}

std::vector<float> Metadata::floats(std::string_view name) const {
  const std::vector<double> wide = numbers(name);
  std::vector<float> out(wide.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (std::abs(wide[i]) > static_cast<double>(std::numeric_limits<float>::max()))
      out_of_range(name, fmt::format("{} at index {}", wide[i], i), "numbers within float32");
    out[i] = static_cast<float>(wide[i]);
  }
  return out;
}

std::vector<bool> Metadata::booleans(std::string_view name) const {
  const Entry& e = get(name, "an array of bools");
  if (!e.array || e.type != ValueType::boolean) wrong(name, "an array of bools");
  std::vector<bool> out(static_cast<std::size_t>(e.count));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = *element(e, i) != std::byte{0};
  return out;
}

StringArray Metadata::strings(std::string_view name) const {
  const Entry& e = get(name, "an array of strings");
  if (!e.array || e.type != ValueType::string) wrong(name, "an array of strings");
  return {text_.data(), ends_.data() + e.at, static_cast<std::size_t>(e.count)};
}

std::int64_t Metadata::integer_or(std::string_view name, std::int64_t absent, std::int64_t min, std::int64_t max) const {
  return has(name) ? integer(name, min, max) : absent;
}
double Metadata::number_or(std::string_view name, double absent) const { return has(name) ? number(name) : absent; }
double Metadata::number_or(std::string_view name, double absent, double min, double max) const {
  return has(name) ? number(name, min, max) : absent;
}
bool Metadata::boolean_or(std::string_view name, bool absent) const { return has(name) ? boolean(name) : absent; }
std::string_view Metadata::string_or(std::string_view name, std::string_view absent) const {
  return has(name) ? string(name) : absent;
}

}  // namespace dsv31::inline v1::io
