// Python's two ways to format: "%s" % values and "{}".format(values), with the format specification of numbers and strings.
//
// The pieces of the format text keep their origin, and so do strings that are put in; digits and padding are data.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/text/jinja_natives.h"
#include "lib/text/jinja_print.h"

namespace dsv31::inline v1::text::jinja {
namespace {

constexpr int kMaxPrecision = 200;

struct Spec {
  std::string fill = " ";
  char align = 0, sign = '-', type = 0, group = 0;
  bool alternate = false;
  std::size_t width = 0;
  int precision = -1;
};

std::size_t digits(std::string_view s, std::size_t& i) {
  std::size_t n = 0;
  for (; i < s.size() && s[i] >= '0' && s[i] <= '9'; ++i) {
    n = n * 10 + static_cast<std::size_t>(s[i] - '0');
    if (n > 1'000'000'000) refuse("got a width beyond 1000000000, expected a smaller one", Code::limit);
  }
  return n;
}

int checked_precision(std::size_t n) {
  if (n > kMaxPrecision) refuse(fmt::format("got a precision of {}, expected at most {}", n, kMaxPrecision), Code::limit);
  return static_cast<int>(n);
}

Text padded(Context& context, const Text& text, const Spec& spec, char align) {
  const std::size_t length = text.length();
  if (spec.width <= length) return text;
  const std::size_t missing = spec.width - length;
  context.budget.room(missing, spec.fill.size());
  if (spec.align) align = spec.align;
  std::size_t left = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  std::size_t at = 0;
  if (align == '=') {  // between sign and digits
    left = missing;
    if (!text.empty() && (text.view()[0] == '-' || text.view()[0] == '+' || text.view()[0] == ' ')) at = 1;
  }
  Text out = text.slice(0, at);
  for (std::size_t i = 0; i < left; ++i) out.append(spec.fill, false);
  out.append(text, at, text.size());
  for (std::size_t i = left; i < missing; ++i) out.append(spec.fill, false);
  return out;
}

std::string grouped(const std::string& number, char separator) {
  const std::size_t end = std::min(number.find_first_of(".e%"), number.size());
  std::string out;
  for (std::size_t i = 0; i < end; ++i) {
    out += number[i];
    if (i + 1 < end && (end - i - 1) % 3 == 0) out += separator;
  }
  return out + number.substr(end);
}

std::string with_sign(std::string digits_only, bool negative, char sign) {
  if (negative) return '-' + digits_only;
  return sign == '+' ? '+' + digits_only : sign == ' ' ? ' ' + digits_only : digits_only;
}

std::string integer_digits(std::int64_t value, char type, bool alternate) {
  const auto magnitude = value < 0 ? ~static_cast<std::uint64_t>(value) + 1 : static_cast<std::uint64_t>(value);
  switch (type) {
    case 'x':
      return (alternate ? "0x" : "") + fmt::format("{:x}", magnitude);
    case 'X':
      return (alternate ? "0X" : "") + fmt::format("{:X}", magnitude);
    case 'o':
      return (alternate ? "0o" : "") + fmt::format("{:o}", magnitude);
    case 'b':
      return (alternate ? "0b" : "") + fmt::format("{:b}", magnitude);
    default:
      return fmt::format("{}", magnitude);
  }
}

Text format_number(Context& context, const Value& v, const Spec& spec) {
  const bool floating_type = std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos && spec.type != 0;
  std::string number;
  bool negative = false;
  if (v.is_whole() && !floating_type) {
    if (spec.precision >= 0) refuse("got a precision for an integer, expected none");
    if (spec.type == 'c') {
      if (v.as_int() < 0 || v.as_int() > 0x10FFFF) refuse("got no code point for 'c', expected one");
      append_utf8(number, static_cast<char32_t>(v.as_int()));
      return padded(context, Text(number, false), spec, '<');
    }
    if (spec.type != 0 && std::string_view("dnxXob").find(spec.type) == std::string_view::npos) {
      refuse("got a format type that integers do not have, expected d, x, o, b, e, f or g");
    }
    negative = v.as_int() < 0;
    number = integer_digits(v.as_int(), spec.type, spec.alternate);
  } else {
    if (spec.type != 0 && !floating_type && spec.type != 'n')
      refuse("got a format type that floats do not have, expected e, f, g or %");
    double d = v.as_double();
    negative = std::signbit(d) && !std::isnan(d);
    d = std::fabs(d);
    if (spec.type == 0 && spec.precision < 0) {
      number = repr_float(d);
    } else if (spec.type == 0) {  // like g, but with a digit after the point
      number = format_float(d, 'g', spec.precision, false);
      if (number.find_first_of(".enia") == std::string::npos) number += ".0";
    } else if (spec.type == '%') {
      number = format_float(d * 100, 'f', spec.precision, false) + '%';
    } else {
      number = format_float(d, spec.type == 'n' ? 'g' : spec.type, spec.precision, spec.alternate);
    }
  }
  if (spec.group) number = grouped(number, spec.group);
  return padded(context, Text(with_sign(std::move(number), negative, spec.sign), false), spec, '>');
}

Spec parse_spec(std::string_view s) {
  Spec spec;
  std::size_t i = 0;
  if (!s.empty()) {
    const std::size_t n = char_size(s, 0);
    if (n < s.size() && std::string_view("<>^=").find(s[n]) != std::string_view::npos) {
      spec.fill = s.substr(0, n);
      spec.align = s[n];
      i = n + 1;
    } else if (std::string_view("<>^=").find(s[0]) != std::string_view::npos) {
      spec.align = s[0];
      i = 1;
    }
  }
  if (i < s.size() && (s[i] == '+' || s[i] == '-' || s[i] == ' ')) spec.sign = s[i++];
  if (i < s.size() && s[i] == '#') spec.alternate = true, ++i;
  if (i < s.size() && s[i] == '0') {
    if (!spec.align) spec.fill = "0", spec.align = '=';
    ++i;
  }
  spec.width = digits(s, i);
  if (i < s.size() && (s[i] == ',' || s[i] == '_')) spec.group = s[i++];
  if (i < s.size() && s[i] == '.') {
    const std::size_t begin = ++i;
    spec.precision = checked_precision(digits(s, i));
    if (i == begin) refuse("got a format without digits after the point, expected a precision");
  }
  if (i < s.size()) spec.type = s[i++];
  if (i != s.size()) refuse("got a format specification that Python does not have, expected one");
  return spec;
}

Text format_value(Context& context, const Value& v, std::string_view text) {
  if (text.empty()) return str(context.budget, v);
  if (v.is(Kind::undefined)) use_undefined(context, v);
  const Spec spec = parse_spec(text);
  if (v.is_number()) return format_number(context, v, spec);
  if (!v.is(Kind::string)) refuse(fmt::format("got a format specification for a {}, expected a string or number", type_name(v)));
  if (spec.type != 0 && spec.type != 's') refuse("got a format type that strings do not have, expected s");
  Text s = v.text();
  if (spec.precision >= 0) s = s.slice(0, s.offset(static_cast<std::size_t>(spec.precision)));
  if (spec.align == '=' && spec.fill != "0") refuse("got '=' for a string, expected <, > or ^");
  Spec left = spec;
  if (left.align == '=') left.align = '<';
  return padded(context, s, left, '<');
}

// One value of a % format.
class PercentValues {
 public:
  explicit PercentValues(const Value& values)
      : values_(values), tuple_(values.is(Kind::list) && values.list().flavour == Flavour::tuple) {}

  Value next() {
    if (tuple_) {
      if (used_ >= values_.list().items.size()) refuse("got too few values for a % format, expected one for each");
      return values_.list().items[used_++];
    }
    if (used_++) refuse("got too few values for a % format, expected one for each");
    return values_;
  }
  Value named(std::string_view key) {
    if (!values_.is(Kind::dict)) refuse("got names in a % format, expected a dict of values");
    by_name_ = true;
    const Value* v = values_.dict().find(key);
    if (!v) refuse("got a name in a % format that the dict lacks, expected it there");
    return *v;
  }
  void done() const {
    if (by_name_) return;
    // Python takes what has keys or indices for a mapping, and a mapping may stay unused.
    const bool mapping =
        values_.is(Kind::undefined) || values_.is(Kind::dict) ||
        (values_.is(Kind::list) && (values_.list().flavour == Flavour::list || values_.list().flavour == Flavour::range));
    if (tuple_ ? used_ < values_.list().items.size() : used_ == 0 && !mapping) {
      refuse("got more values than a % format takes, expected one for each");
    }
  }

 private:
  const Value& values_;
  bool tuple_, by_name_ = false;
  std::size_t used_ = 0;
};

std::int64_t whole_for_percent(const Value& v) {
  if (v.is_whole()) return v.as_int();
  if (v.is(Kind::floating) && std::fabs(v.as_double()) < 9.2e18) return static_cast<std::int64_t>(v.as_double());
  refuse(fmt::format("got a {} for %d, expected a number", type_name(v)));
}

}  // namespace

std::string format_float(double d, char type, int precision, bool alternate) {
  if (std::isnan(d)) return type == 'E' || type == 'F' || type == 'G' ? "NAN" : "nan";
  if (std::isinf(d)) return std::string(d < 0 ? "-" : "") + (type == 'E' || type == 'F' || type == 'G' ? "INF" : "inf");
  const int p = precision < 0 ? 6 : precision;
  switch (type) {
    case 'e':
      return alternate ? fmt::format("{:#.{}e}", d, p) : fmt::format("{:.{}e}", d, p);
    case 'E':
      return alternate ? fmt::format("{:#.{}E}", d, p) : fmt::format("{:.{}E}", d, p);
    case 'g':
      return alternate ? fmt::format("{:#.{}g}", d, p) : fmt::format("{:.{}g}", d, p);
    case 'G':
      return alternate ? fmt::format("{:#.{}G}", d, p) : fmt::format("{:.{}G}", d, p);
    default:
      return alternate ? fmt::format("{:#.{}f}", d, p) : fmt::format("{:.{}f}", d, p);
  }
}

Value format_percent(Context& context, const Value& format, const Value& values_in) {
  const Text& text = format.text();
  const std::string_view s = text.view();
  PercentValues values(values_in);
  Text out;
  std::size_t plain = 0;
  for (std::size_t i = 0; i < s.size();) {
    if (s[i] != '%') {
      ++i;
      continue;
    }
    context.budget.grow(out, i - plain);
    out.append(text, plain, i);
    const std::size_t percent = i++;
    const Value* chosen = nullptr;
    Value value;
    if (i < s.size() && s[i] == '(') {
      const std::size_t close = s.find(')', i);
      if (close == std::string_view::npos) refuse("got a % format with an open name, expected ')'");
      value = values.named(s.substr(i + 1, close - i - 1));
      chosen = &value;
      i = close + 1;
    }
    Spec spec;
    bool left = false, zero = false;
    for (; i < s.size() && std::string_view("-+ #0").find(s[i]) != std::string_view::npos; ++i) {
      left = left || s[i] == '-';
      zero = zero || s[i] == '0';
      if (s[i] == '+' || (s[i] == ' ' && spec.sign != '+')) spec.sign = s[i];
      spec.alternate = spec.alternate || s[i] == '#';
    }
    if (i < s.size() && s[i] == '*') refuse("got '*' in a % format, expected digits", Code::unsupported);
    spec.width = digits(s, i);
    if (i < s.size() && s[i] == '.') {
      ++i;
      spec.precision = checked_precision(digits(s, i));
    }
    while (i < s.size() && (s[i] == 'l' || s[i] == 'h' || s[i] == 'L')) ++i;
    if (i >= s.size()) refuse("got an incomplete % format, expected a type at its end");
    const char type = s[i++];
    plain = i;
    if (type == '%') {
      out.append(text, percent, percent + 1);
      continue;
    }
    if (!chosen) value = values.next();
    const bool number = std::string_view("diuxXoeEfFgG").find(type) != std::string_view::npos;
    if (number && value.is(Kind::undefined)) use_undefined(context, value);
    if (left) {
      spec.align = '<';
    } else if (zero && number) {
      spec.fill = "0";
      spec.align = '=';
    } else {
      spec.align = '>';
    }
    Text piece;
    switch (type) {
      case 's':
      case 'r':
      case 'a':
        if (type == 's') {
          piece = escaped_str(context, value, format.markup());
        } else {
          append_repr(context.budget, piece, value);
        }
        if (spec.precision >= 0) piece = piece.slice(0, piece.offset(static_cast<std::size_t>(spec.precision)));
        break;
      case 'c':
        if (value.is(Kind::string) && value.text().length() == 1) {
          piece = value.text();
        } else {
          std::string c;
          const std::int64_t code = whole_for_percent(value);
          if (code < 0 || code > 0x10FFFF) refuse("got no code point for %c, expected one");
          append_utf8(c, static_cast<char32_t>(code));
          piece = Text(c, false);
        }
        break;
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o': {
        if (std::string_view("xXo").find(type) != std::string_view::npos && !value.is_whole()) {
          refuse(fmt::format("got a {} for %{}, expected an integer", type_name(value), type));
        }
        const std::int64_t n = whole_for_percent(value);
        std::string d = integer_digits(n, type, spec.alternate);
        if (spec.precision > static_cast<int>(d.size())) d.insert(0, static_cast<std::size_t>(spec.precision) - d.size(), '0');
        piece = Text(with_sign(std::move(d), n < 0, spec.sign), false);
        break;
      }
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': {
        if (!value.is_number()) refuse(fmt::format("got a {} for %{}, expected a number", type_name(value), type));
        const double d = value.as_double();
        const bool negative = std::signbit(d) && !std::isnan(d);
        piece = Text(with_sign(format_float(std::fabs(d), type, spec.precision, spec.alternate), negative, spec.sign), false);
        break;
      }
      default:
        refuse("got a % format type that Python does not have, expected s, r, c, d, x, o, e, f or g");
    }
    piece = padded(context, piece, spec, '>');
    context.budget.grow(out, piece.size());
    out.append(piece);
  }
  context.budget.grow(out, s.size() - plain);
  out.append(text, plain, s.size());
  values.done();
  return context.budget.text(std::move(out), format.markup());
}

namespace {

// "{0.name[key]!r:spec}" of str.format.
class BraceFormat {
 public:
  BraceFormat(Context& context, Arguments& arguments, bool escape) : context_(context), arguments_(arguments), escape_(escape) {}

  void write(Text& out, const Text& format, int depth) {
    const std::string_view s = format.view();
    std::size_t plain = 0;
    for (std::size_t i = 0; i < s.size();) {
      if (s[i] != '{' && s[i] != '}') {
        ++i;
        continue;
      }
      if (i + 1 < s.size() && s[i + 1] == s[i]) {
        out.append(format, plain, i + 1);
        plain = i += 2;
        continue;
      }
      if (s[i] == '}') refuse("got a single '}' in a format, expected '}}'");
      context_.budget.grow(out, i - plain);
      out.append(format, plain, i);
      std::size_t end = i + 1;
      for (int open = 1;; ++end) {
        if (end >= s.size()) refuse("got a '{' without '}' in a format, expected both");
        if (s[end] == '{') ++open;
        if (s[end] == '}' && --open == 0) break;
      }
      field(out, format, i + 1, end, depth);
      plain = i = end + 1;
    }
    context_.budget.grow(out, s.size() - plain);
    out.append(format, plain, s.size());
  }

 private:
  void field(Text& out, const Text& format, std::size_t begin, std::size_t end, int depth) {
    const std::string_view s = format.view().substr(begin, end - begin);
    std::size_t i = 0;
    for (int brackets = 0; i < s.size(); ++i) {
      if (s[i] == '[') brackets = 1;
      if (s[i] == ']') brackets = 0;
      if (!brackets && (s[i] == '!' || s[i] == ':')) break;
    }
    Value value = lookup(s.substr(0, i));
    if (i < s.size() && s[i] == '!') {
      if (i + 1 >= s.size()) refuse("got '!' without a conversion in a format, expected r or s");
      const char conversion = s[i + 1];
      i += 2;
      Text text;
      if (conversion == 'r' || conversion == 'a') {
        append_repr(context_.budget, text, value);
      } else if (conversion == 's') {
        text = str(context_.budget, value);
      } else {
        refuse("got an unknown conversion in a format, expected r or s");
      }
      value = context_.budget.text(std::move(text));
    }
    Text spec;
    if (i < s.size()) {
      if (s[i] != ':') refuse("got text after a conversion in a format, expected ':'");
      const Text inner = format.slice(begin + i + 1, end);
      if (inner.view().find('{') == std::string_view::npos) {
        spec = inner;
      } else {
        if (depth > 0) refuse("got format fields nested twice, expected once");
        write(spec, inner, depth + 1);
      }
    }
    Text piece = format_value(context_, value, spec.view());
    if (escape_ && !value.markup()) piece = escape_html(context_.budget, piece);
    context_.budget.grow(out, piece.size());
    out.append(piece);
  }

  Value lookup(std::string_view name) {
    std::size_t i = 0;
    while (i < name.size() && name[i] != '.' && name[i] != '[') ++i;
    const std::string_view first = name.substr(0, i);
    Value value;
    std::size_t digits_end = 0;
    if (first.empty()) {
      if (manual_) refuse("got '{}' after a numbered field in a format, expected one kind");
      automatic_ = true;
      value = arguments_.need(next_++, "");
    } else if (const std::size_t n = digits(first, digits_end); digits_end == first.size()) {
      if (automatic_) refuse("got a numbered field after '{}' in a format, expected one kind");
      manual_ = true;
      value = arguments_.need(n, "");
    } else {
      const Value* found = arguments_.named(first);
      if (!found) refuse("got a name in a format that no argument has, expected one of theirs");
      value = *found;
    }
    while (i < name.size()) {
      context_.budget.spend(1);
      if (name[i] == '.') {
        std::size_t end = ++i;
        while (end < name.size() && name[end] != '.' && name[end] != '[') ++end;
        value = get_attribute(context_, value, name.substr(i, end - i), -1);
        i = end;
      } else {
        const std::size_t close = name.find(']', i);
        if (close == std::string_view::npos) refuse("got '[' without ']' in a format, expected both");
        const std::string_view key = name.substr(i + 1, close - i - 1);
        std::size_t k = 0;
        const std::size_t n = digits(key, k);
        value = get_item(
            context_, value,
            !key.empty() && k == key.size() ? Value::integer(static_cast<std::int64_t>(n)) : Value::constant(key, false));
        i = close + 1;
        if (i < name.size() && name[i] != '.' && name[i] != '[') refuse("got text after ']' in a format, expected '.' or '['");
      }
    }
    return value;
  }

  Context& context_;
  Arguments& arguments_;
  std::size_t next_ = 0;
  bool automatic_ = false, manual_ = false;
  const bool escape_;  // the format is markup
};

}  // namespace

Value format_braces(Context& context, const Value& format, Arguments& arguments) {
  Text out;
  BraceFormat(context, arguments, format.markup()).write(out, format.text(), 0);
  return context.budget.text(std::move(out), format.markup());
}

}  // namespace dsv31::inline v1::text::jinja
