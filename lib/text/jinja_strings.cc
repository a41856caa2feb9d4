// The parts that string methods and filters are made of. Each works on byte ranges of its input, so that origins come along.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "lib/text/jinja_natives.h"
#include "lib/text/jinja_unicode.h"

namespace dsv31::inline v1::text::jinja {

const Value& need_string(const Value& v, std::string_view what) {
  if (!v.is(Kind::string)) refuse(fmt::format("got a {} in {}, expected a string", type_name(v), what));
  return v;
}

CharSet::CharSet(Context& context, const Value* given) {
  if (!given || given->is(Kind::none)) {
    space = true;
    return;
  }
  const std::string_view s = need_string(*given, "strip").text().view();
  context.budget.spend(static_cast<std::int64_t>(s.size()));
  std::size_t n = 0;
  for (std::size_t i = 0; i < s.size(); i += n) chars.push_back(char_at(s, i, n));
  std::sort(chars.begin(), chars.end());
}

bool CharSet::has(char32_t c) const { return space ? is_space(c) : std::binary_search(chars.begin(), chars.end(), c); }

Text strip(const Text& text, const CharSet& set, bool left, bool right) {
  const std::string_view s = text.view();
  std::size_t begin = 0, end = s.size(), n = 0;
  while (left && begin < end && set.has(char_at(s, begin, n))) begin += n;
  while (right && begin < end) {
    std::size_t last = end - 1;
    while (last > begin && end - last < 4 && (static_cast<unsigned char>(s[last]) & 0xC0) == 0x80) --last;
    char32_t c = char_at(s, last, n);
    if (last + n != end) {  // a stray byte after whole characters
      last = end - 1;
      c = char_at(s, last, n);
    }
    if (!set.has(c)) break;
    end = last;
  }
  return text.slice(begin, end);
}

Text replace(Context& context, const Text& text, const Text& from, const Text& to, std::int64_t count) {
  Text out;
  std::size_t copied = 0;
  const auto left = [&] { return count != 0 && (count < 0 || count-- > 0); };
  context.budget.spend(static_cast<std::int64_t>(text.size() / 16));
  if (from.empty()) {
    for (std::size_t i = 0; i <= text.size(); i = i < text.size() ? i + char_size(text.view(), i) : i + 1) {
      if (!left()) break;
      context.budget.grow(out, to.size() + i - copied);
      out.append(text, copied, i);
      out.append(to);
      copied = i;
    }
  } else {
    for (std::size_t at = 0;;) {
      at = find_bytes(text.view(), from.view(), at);
      if (at == std::string_view::npos || !left()) break;
      context.budget.grow(out, to.size() + at - copied);
      out.append(text, copied, at);
      out.append(to);
      at += from.size();
      copied = at;
    }
  }
  context.budget.grow(out, text.size() - copied);
  out.append(text, copied, text.size());
  return out;
}

Pieces lines_of(Context& context, const Text& text, bool keep_ends) {
  Pieces lines;
  context.budget.spend(static_cast<std::int64_t>(text.size() / 8));
  const std::string_view s = text.view();
  std::size_t begin = 0, n = 0;
  for (std::size_t i = 0; i < s.size();) {
    const char32_t c = char_at(s, i, n);
    if (!is_line_end(c)) {
      i += n;
      continue;
    }
    std::size_t next = i + n;
    if (c == '\r' && next < s.size() && s[next] == '\n') ++next;
    context.budget.spend(4);  // pieces are not metered values
    lines.emplace_back(begin, keep_ends ? next : i);
    begin = i = next;
  }
  if (begin < s.size()) lines.emplace_back(begin, s.size());
  return lines;
}

Text map_case(Context& context, const Text& text, char how) {
  const std::string_view s = text.view();
  context.budget.spend(static_cast<std::int64_t>(s.size() / 8));
  Text out;
  out.reserve(s.size());
  std::string mapped;
  bool previous_cased = false, first = true;
  std::size_t n = 0;
  const auto final_sigma = [&](std::size_t after) {
    std::size_t k = 0;
    return previous_cased && !(after < s.size() && is_cased(char_at(s, after, k)));
  };
  for (std::size_t i = 0; i < s.size(); i += n) {
    const char32_t c = char_at(s, i, n);
    mapped.clear();
    char to = how;
    if (how == 't') to = previous_cased ? 'l' : 'T';
    if (how == 'c') to = first ? 'T' : 'l';
    if (how == 's') to = is_upper(c) ? 'l' : is_lower(c) ? 'u' : 0;
    if (to == 'u') {
      append_upper(mapped, c);
    } else if (to == 'l') {
      if (c == 0x3A3 && final_sigma(i + n)) {
        append_utf8(mapped, 0x3C2);
      } else {
        append_lower(mapped, c);
      }
    } else if (to == 'T') {
      append_title(mapped, c);
    } else {
      mapped = s.substr(i, n);
    }
    out.append_for(mapped, text, i, i + n);
    previous_cased = is_cased(c);
    first = false;
  }
  return out;
}

bool parse_int(std::string_view s, int base, std::int64_t& out) {
  while (!s.empty() && is_space(static_cast<unsigned char>(s.front()))) s.remove_prefix(1);
  while (!s.empty() && is_space(static_cast<unsigned char>(s.back()))) s.remove_suffix(1);
  const bool minus = s.starts_with('-');
  if (minus || s.starts_with('+')) s.remove_prefix(1);
  if (base != 10 && s.size() > 2 && s[0] == '0') {
    const char x = static_cast<char>(s[1] | 0x20);
    const int prefix = x == 'x' ? 16 : x == 'o' ? 8 : x == 'b' ? 2 : 0;
    if (prefix && (prefix == base || base == 0)) {
      base = prefix;
      s.remove_prefix(2);
      if (s.starts_with('_')) s.remove_prefix(1);
    }
  }
  if (base == 0) base = 10;
  if (base < 2 || base > 36) return false;
  std::string digits = minus ? "-" : "";
  bool underscore = true;  // not allowed at the front
  for (const char c : s) {
    if (c == '_' && underscore) return false;
    underscore = c == '_';
    if (!underscore && c == '-') return false;
    if (!underscore) digits += c;
  }
  if (underscore) return false;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), out, base);
  if (result.ec == std::errc::result_out_of_range) refuse("got an integer beyond 64 bits, expected a smaller one", Code::limit);
  return result.ec == std::errc() && result.ptr == digits.data() + digits.size();
}

bool parse_float(std::string_view s, double& out) {
  while (!s.empty() && is_space(static_cast<unsigned char>(s.front()))) s.remove_prefix(1);
  while (!s.empty() && is_space(static_cast<unsigned char>(s.back()))) s.remove_suffix(1);
  std::string digits;
  for (std::size_t i = 0; i < s.size(); ++i) {
    const auto digit = [&](std::size_t k) { return k < s.size() && s[k] >= '0' && s[k] <= '9'; };
    if (s[i] == '_' && i > 0 && digit(i - 1) && digit(i + 1)) continue;
    digits += static_cast<char>(s[i] >= 'A' && s[i] <= 'Z' ? s[i] | 0x20 : s[i]);
  }
  std::string_view d = digits;
  const bool minus = d.starts_with('-');
  if (minus || d.starts_with('+')) d.remove_prefix(1);
  if (d == "inf" || d == "infinity") {
    out = minus ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    return true;
  }
  if (d == "nan") {
    out = std::numeric_limits<double>::quiet_NaN();
    return true;
  }
  if (d.empty() || !((d[0] >= '0' && d[0] <= '9') || d[0] == '.')) return false;
  const auto result = std::from_chars(d.data(), d.data() + d.size(), out);
  if (result.ptr != d.data() + d.size()) return false;
  if (result.ec == std::errc::result_out_of_range) {
    const std::size_t e = d.find('e');  // too small or too large: the exponent says which
    out = e != std::string_view::npos && e + 1 < d.size() && d[e + 1] == '-' ? 0.0 : std::numeric_limits<double>::infinity();
  } else if (result.ec != std::errc()) {
    return false;
  }
  if (minus) out = -out;
  return true;
}

}  // namespace dsv31::inline v1::text::jinja
