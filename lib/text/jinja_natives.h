// Functions that templates call: filters, tests, methods of strings, lists and dicts, and globals.
//
// Each kind is one table of names and functions; the compiler turns a name into its index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/text/jinja_budget.h"

namespace dsv31::inline v1::text::jinja {

using NamedValue = std::pair<std::string_view, Value>;

// The arguments of one call, taken by position or name; done() refuses what nobody took.
class Arguments {
 public:
  Arguments(std::string_view callee, std::span<const Value> positional, std::span<const NamedValue> named)
      : callee_(callee), positional_(positional), named_(named) {}

  std::size_t size() const noexcept { return positional_.size(); }
  std::span<const Value> positional() const noexcept { return positional_; }
  std::span<const NamedValue> named() const noexcept { return named_; }
  std::string_view callee() const noexcept { return callee_; }

  // The argument at a position or of a name (empty: by position only); null where absent.
  const Value* get(std::size_t index, std::string_view name);
  const Value* named(std::string_view name) { return get(~std::size_t{0}, name); }
  const Value& need(std::size_t index, std::string_view name);
  bool flag(std::size_t index, std::string_view name, bool absent);
  std::int64_t whole(std::size_t index, std::string_view name, std::int64_t absent);
  std::int64_t need_whole(std::size_t index, std::string_view name);
  void done() const;  // no argument is left over

 private:
  std::string_view callee_;
  std::span<const Value> positional_;
  std::span<const NamedValue> named_;
  std::size_t positions_taken_ = 0;
  std::uint64_t names_taken_ = 0;
};

// What natives see of the machine.
struct Context {
  Budget& budget;
  std::int64_t now;  // seconds since 1970 UTC
  // Values that may form cycles; they are cleared when the render ends.
  std::vector<std::shared_ptr<NamespaceCell>>& namespaces;
  const std::vector<std::string>& names;  // of undefined values, for messages
};

// Throws for an operation on an undefined value: format where the template names what cannot exist, argument where the data lacks
// it.
[[noreturn]] void use_undefined(const Context& context, const Value& v);

using Filter = Value (*)(Context&, const Value& input, Arguments&);
using Test = bool (*)(Context&, const Value& input, Arguments&);

// -1 where there is none.
int find_filter(std::string_view name) noexcept;
int find_test(std::string_view name) noexcept;
bool jinja2_has_filter(std::string_view name) noexcept;  // one that this interpreter lacks
Value call_filter(Context& context, int id, const Value& input, Arguments& arguments);
bool call_test(Context& context, int id, const Value& input, Arguments& arguments);

// Globals: range, dict, namespace, cycler, joiner, raise_exception, strftime_now.
int find_global(std::string_view name) noexcept;
Value call_global(Context& context, int id, Arguments& arguments);
std::string_view global_name(int id) noexcept;
std::string strftime(std::string_view format, std::int64_t seconds);

// Methods of values; unsafe ones (those that change a list or dict) are known by name and refused.
int find_method(const Value& self, std::string_view name, bool& unsafe) noexcept;
Value call_method(Context& context, int id, const Value& self, Arguments& arguments);
std::string_view method_name(int id) noexcept;

// The member of a dict; counts the search.
const Value* find_key(Context& context, const DictCell& dict, const Value& key);

// Operators.
Value get_item(Context& context, const Value& object, const Value& key);
Value get_attribute(Context& context, const Value& object, std::string_view name, int name_id);
Value get_slice(Context& context, const Value& object, const Value& start, const Value& stop, const Value& step);
Value add(Context& context, const Value& a, const Value& b);
enum class Arithmetic { subtract, multiply, divide, floor_divide, modulo, power };
Value arithmetic(Context& context, Arithmetic op, const Value& a, const Value& b);
Value signed_value(Context& context, const Value& a, bool minus);
bool contains(Context& context, const Value& container, const Value& item);
Value concat(Context& context, std::span<const Value> items);
Text escaped_str(Context& context, const Value& v, bool escape);  // str(v); escaped unless it is markup
// Arguments of a tool call stand for their JSON text where a string is wanted; null for all others.
const Text* text_like(const Value& v) noexcept;

// The items that a loop over v sees; a generator gives what it has left and is used up. `what` goes into errors.
std::vector<Value> items_of(Context& context, const Value& v, std::string_view what);
Value generator(Context& context, std::vector<Value> items, std::shared_ptr<const Fault> failure = nullptr);
std::vector<Value> characters(Context& context, const Text& text);
std::int64_t length_of(Context& context, const Value& v);

// Formatting: "%s" % values, "{}".format(values).
Value format_percent(Context& context, const Value& format, const Value& values);
Value format_braces(Context& context, const Value& format, Arguments& arguments);
std::string format_float(double d, char type, int precision, bool alternate);

// Pieces that filters and methods share.
struct CharSet {  // what strip() takes off; white space where it is not given
  CharSet(Context& context, const Value* given);
  bool has(char32_t c) const;
  std::u32string chars;
  bool space = false;
};
Text strip(const Text& text, const CharSet& set, bool left, bool right);
Text replace(Context& context, const Text& text, const Text& from, const Text& to, std::int64_t count);
using Pieces = std::vector<std::pair<std::size_t, std::size_t>>;  // byte ranges
Pieces lines_of(Context& context, const Text& text, bool keep_ends);
Text map_case(Context& context, const Text& text, char how);  // u(pper) l(ower) c(apitalize) t(itle) s(wapcase)
const Value& need_string(const Value& v, std::string_view what);
bool parse_int(std::string_view s, int base, std::int64_t& out);
bool parse_float(std::string_view s, double& out);

}  // namespace dsv31::inline v1::text::jinja
