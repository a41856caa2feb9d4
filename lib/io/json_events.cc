#include "lib/io/json_events.h"

#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>

namespace dsv31::inline v1::io {

namespace {

using Lexed = nlohmann::json;

// The characters of a text; tells how far the lexer has come, which its SAX interface does not.
struct Position {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at = nullptr;
  const char* begin = nullptr;
  std::size_t* offset = nullptr;

  const char& operator*() const noexcept { return *at; }
  Position& operator++() noexcept {
    *offset = static_cast<std::size_t>(++at - begin);
    return *this;
  }
  Position operator++(int) noexcept {
    Position old = *this;
    ++*this;
    return old;
  }
  bool operator==(const Position& o) const noexcept { return at == o.at; }
  bool operator!=(const Position& o) const noexcept { return at != o.at; }
};

class Handler {
 public:
  Handler(std::string_view where, const JsonLimits& limits, JsonEvents& events, const std::size_t& offset)
      : where_(where), limits_(limits), events_(events), offset_(offset) {}

  bool null() { return value(), events_.null(), true; }
  bool boolean(bool v) { return value(), events_.boolean(v), true; }
  bool number_integer(Lexed::number_integer_t v) { return value(), events_.integer(v), true; }
  bool number_unsigned(Lexed::number_unsigned_t v) {
    value();
    if (v <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      events_.integer(static_cast<std::int64_t>(v));
    else
      events_.unsigned_integer(v);
    return true;
  }
  // The lexer converts with the locale's decimal point; the digits are converted again without one.
  bool number_float(Lexed::number_float_t lexed, const std::string& digits) {
    value();
    std::string text = digits;
    for (char& c : text)
      if (!((c >= '0' && c <= '9') || c == '-' || c == '+' || c == 'e' || c == 'E')) c = '.';
    double v = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
    if (error == std::errc::result_out_of_range) v = lexed;  // too small: zero or denormal; too large was refused by the lexer
    events_.number(v);
    return true;
  }
  bool string(std::string& v) { return value(), events_.string(v), true; }
  bool binary(Lexed::binary_t&) { return fail("a JSON text"); }
  bool start_object(std::size_t) { return open(), events_.start_object(), true; }
  bool key(std::string& name) { return events_.key(name), true; }
  bool end_object() { return --depth_, events_.end_object(), true; }
  bool start_array(std::size_t) { return open(), events_.start_array(), true; }
  bool end_array() { return --depth_, events_.end_array(), true; }
  bool parse_error(std::size_t position, const std::string&, const Lexed::exception&) {
    return fail("well-formed JSON in UTF-8", position);  // counts the byte that does not fit, and the end as one
  }

  bool fail(std::string_view expected, std::size_t position = 0) const {
    throw Error(Code::format, where_,
                fmt::format("byte {}: got a byte that does not fit or the end, expected {}",
                            position == 0 ? offset_ : position - 1, expected));
  }

 private:
  void value() {
    if (++values_ > limits_.max_values)
      throw Error(Code::limit, where_,
                  fmt::format("byte {}: got more than {} values, expected no more", offset_, limits_.max_values));
  }
  void open() {
    value();
    if (++depth_ > limits_.max_depth)
      throw Error(Code::limit, where_,
                  fmt::format("byte {}: got nesting deeper than {}, expected no more", offset_, limits_.max_depth));
  }

  std::string_view where_;
  const JsonLimits& limits_;
  JsonEvents& events_;
  const std::size_t& offset_;
  std::size_t values_ = 0;
  int depth_ = 0;
};

}  // namespace

void parse_json_events(std::string_view text, std::string_view where, const JsonLimits& limits, JsonEvents& events) {
  if (text.size() > limits.max_bytes)
    throw Error(Code::limit, where, fmt::format("length: got {} bytes, expected at most {}", text.size(), limits.max_bytes));
  // The lexer takes a zero byte for the end of its input, which would hide what follows.
  if (const std::size_t zero = text.find('\0'); zero != text.npos)
    throw Error(Code::format, where, fmt::format("byte {}: got a zero byte, expected JSON", zero));
  events.offset_ = 0;
  Handler handler(where, limits, events, events.offset_);
  const Position begin{text.data(), text.data(), &events.offset_};
  const Position end{text.data() + text.size(), text.data(), &events.offset_};
  try {
    if (!Lexed::sax_parse(begin, end, &handler)) handler.fail("well-formed JSON");
  } catch (const Lexed::exception&) {
    handler.fail("well-formed JSON");
  }
}

}  // namespace dsv31::inline v1::io
