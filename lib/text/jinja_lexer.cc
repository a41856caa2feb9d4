#include "lib/text/jinja_lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "dsv31/error.h"
#include "lib/text/jinja_text.h"
#include "lib/text/jinja_unicode.h"

namespace dsv31::inline v1::text::jinja {
namespace {

constexpr std::size_t kMaxSource = std::size_t{16} << 20;

bool digit(char c) { return c >= '0' && c <= '9'; }
bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// "\r\n" and "\r" become "\n"; one trailing newline goes.
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(normalized(source)), s_(text_) {}

  std::vector<Lexeme> run() {
    for (std::size_t i = 0, n = 0; i < s_.size(); i += n) {
      if (char_at(s_, i, n) >= 0xDC80 && n == 1 && static_cast<unsigned char>(s_[i]) >= 0x80)
        fail(i, "a byte that is not UTF-8, expected UTF-8");
    }
    while (pos_ < s_.size()) root();
    push(TokenType::end, s_.size());
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(std::size_t at, std::string_view what) {
    locate(at);
    template_error(Code::format, line_, column_, fmt::format("got {}", what));
  }

  // Positions come in ascending order except for errors; the scan restarts for those.
  void locate(std::size_t at) {
    if (at < located_) located_ = 0, line_ = 1, line_start_ = 0;
    for (; located_ < at; ++located_) {
      if (s_[located_] == '\n') ++line_, line_start_ = located_ + 1;
    }
    column_ = static_cast<std::uint32_t>(at - line_start_ + 1);
  }

  Lexeme& push(TokenType type, std::size_t at, std::string value = {}) {
    locate(at);
    out_.push_back({type, line_, column_, std::move(value)});
    return out_.back();
  }

  bool at(std::size_t i, std::string_view what) const { return s_.substr(std::min(i, s_.size())).starts_with(what); }
  std::size_t skip_space(std::size_t i) const {
    for (std::size_t n = 0; i < s_.size() && is_space(char_at(s_, i, n));) i += n;
    return i;
  }
  char sign(std::size_t i) const { return i < s_.size() && (s_[i] == '-' || s_[i] == '+') ? s_[i] : 0; }

  // Data up to a tag that begins with `mark` ('-', '+' or 0); blanks before a block or comment on its line go.
  void data(std::size_t begin, std::size_t end, char mark, bool variable) {
    std::string_view text = s_.substr(begin, end - begin);
    if (mark == '-') {
      std::size_t keep = 0;
      for (std::size_t i = 0, n = 0; i < text.size(); i += n) {
        if (!is_space(char_at(text, i, n))) keep = i + n;
      }
      text = text.substr(0, keep);
    } else if (mark != '+' && !variable) {
      const std::size_t newline = text.rfind('\n');
      const std::size_t line = newline == std::string_view::npos ? 0 : newline + 1;
      if (line > 0 || line_starting_) {
        std::size_t i = line;
        for (std::size_t n = 0; i < text.size() && is_space(char_at(text, i, n));) i += n;
        if (i == text.size() && i > line) text = text.substr(0, line);
      }
    }
    if (!text.empty()) push(TokenType::data, begin, std::string(text));
  }

  void move_to(std::size_t end) {
    pos_ = end;
    line_starting_ = end > 0 && s_[end - 1] == '\n';
  }

  // "%}", "-%}" or "+%}" with what they take after them; npos if there is none at i.
  std::size_t block_end(std::size_t i) const {
    if (at(i, "+%}")) return i + 3;
    if (at(i, "-%}")) return skip_space(i + 3);
    if (!at(i, "%}")) return std::string_view::npos;
    return at(i + 2, "\n") ? i + 3 : i + 2;
  }

  void root() {
    std::size_t tag = pos_;
    for (;; ++tag) {
      tag = s_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= s_.size()) {
        push(TokenType::data, pos_, std::string(s_.substr(pos_)));
        pos_ = s_.size();
        return;
      }
      if (s_[tag + 1] == '%' || s_[tag + 1] == '{' || s_[tag + 1] == '#') break;
    }
    const char mark = sign(tag + 2);
    const std::size_t after = tag + 2 + (mark ? 1 : 0);
    if (s_[tag + 1] == '%') {
      if (const std::size_t body = raw_begin(after); body != std::string_view::npos) {
        data(pos_, tag, mark, false);
        move_to(body);
        raw(tag);
        return;
      }
    }
    data(pos_, tag, mark, s_[tag + 1] == '{');
    line_starting_ = false;
    if (s_[tag + 1] == '#') {
      comment(tag, after);
    } else {
      push(s_[tag + 1] == '%' ? TokenType::block_begin : TokenType::variable_begin, tag);
      pos_ = after;
      expression(s_[tag + 1] == '%', tag);
    }
  }

  std::size_t raw_begin(std::size_t i) const {
    i = skip_space(i);
    if (!at(i, "raw")) return std::string_view::npos;
    i = skip_space(i + 3);
    if (at(i, "-%}")) return skip_space(i + 3);
    return at(i, "%}") ? i + 2 : std::string_view::npos;
  }

  void raw(std::size_t open) {
    for (std::size_t tag = pos_;; ++tag) {
      tag = s_.find("{%", tag);
      if (tag == std::string_view::npos) fail(open, "a raw block without an end, expected {% endraw %}");
      const char mark = sign(tag + 2);
      std::size_t i = skip_space(tag + 2 + (mark ? 1 : 0));
      if (!at(i, "endraw")) continue;
      const std::size_t end = block_end(skip_space(i + 6));
      if (end == std::string_view::npos) continue;
      data(pos_, tag, mark, false);
      move_to(end);
      return;
    }
  }

  void comment(std::size_t open, std::size_t body) {
    const std::size_t close = s_.find("#}", body);
    if (close == std::string_view::npos) fail(open, "a comment without an end, expected #}");
    const char mark = close > body ? s_[close - 1] : 0;
    std::size_t end = close + 2;
    if (mark == '-') {
      end = skip_space(end);
    } else if (mark != '+' && at(end, "\n")) {
      ++end;
    }
    move_to(end);
  }

  void expression(bool block, std::size_t open) {
    std::string brackets;
    for (;;) {
      if (pos_ >= s_.size())
        fail(open, block ? "a tag without an end, expected %}" : "an expression without an end, expected }}");
      if (brackets.empty()) {
        std::size_t end = std::string_view::npos;
        if (block) {
          end = block_end(pos_);
        } else if (at(pos_, "-}}")) {
          end = skip_space(pos_ + 3);
        } else if (at(pos_, "}}")) {
          end = pos_ + 2;
        }
        if (end != std::string_view::npos) {
          push(block ? TokenType::block_end : TokenType::variable_end, pos_);
          move_to(end);
          return;
        }
      }
      std::size_t n = 0;
      const char32_t c = char_at(s_, pos_, n);
      if (is_space(c)) {
        pos_ += n;
      } else if (digit(s_[pos_])) {
        number();
      } else if (letter(s_[pos_]) || (c >= 0x80 && is_alpha(c))) {
        std::size_t end = pos_;
        for (std::size_t k = 0; end < s_.size() && is_word(char_at(s_, end, k));) end += k;
        push(TokenType::name, pos_, std::string(s_.substr(pos_, end - pos_)));
        pos_ = end;
      } else if (s_[pos_] == '\'' || s_[pos_] == '"') {
        string();
      } else {
        op(brackets);
      }
    }
  }

  void op(std::string& brackets) {
    static constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", ">=", "<="};
    std::string_view text;
    for (const std::string_view two : kTwo) {
      if (at(pos_, two)) text = two;
    }
    if (text.empty() && std::string_view("+-/*%~[](){}><=.:|,;").find(s_[pos_]) != std::string_view::npos)
      text = s_.substr(pos_, 1);
    if (text.empty()) fail(pos_, "a character that begins no token, expected an expression");
    if (text == "(" || text == "[" || text == "{") {
      brackets += text == "(" ? ')' : text == "[" ? ']' : '}';
    } else if (text == ")" || text == "]" || text == "}") {
      if (brackets.empty() || brackets.back() != text[0])
        fail(pos_, fmt::format("an unbalanced '{}', expected a matching bracket", text));
      brackets.pop_back();
    }
    push(TokenType::op, pos_, std::string(text));
    pos_ += text.size();
  }

  // Digits with single underscores between them; appended to `digits`.
  std::size_t digits(std::size_t i, std::string& out, bool (*ok)(char)) const {
    while (i < s_.size()) {
      if (ok(s_[i])) {
        out += s_[i++];
      } else if (s_[i] == '_' && i + 1 < s_.size() && ok(s_[i + 1]) && !out.empty()) {
        ++i;
      } else {
        break;
      }
    }
    return i;
  }

  void number() {
    const std::size_t begin = pos_;
    std::string text;
    int base = 10;
    if (s_[pos_] == '0' && pos_ + 1 < s_.size()) {
      const char x = static_cast<char>(s_[pos_ + 1] | 0x20);
      base = x == 'x' ? 16 : x == 'o' ? 8 : x == 'b' ? 2 : 10;
    }
    std::size_t end = begin;
    if (base != 10) {
      const auto ok = base == 16  ? +[](char c) { return digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f'); }
                      : base == 8 ? +[](char c) { return c >= '0' && c <= '7'; }
                                  : +[](char c) { return c == '0' || c == '1'; };
      end = digits(begin + 2, text, ok);
      if (text.empty()) base = 10;
    }
    bool floating = false;
    if (base == 10) {
      text.clear();
      end = digits(begin, text, digit);
      const bool member = begin > 0 && s_[begin - 1] == '.';  // "a.0.1" holds no float
      if (!member && end + 1 < s_.size() && s_[end] == '.' && digit(s_[end + 1])) {
        std::string fraction;
        end = digits(end + 1, fraction, digit);
        text += '.' + fraction;
        floating = true;
      }
      if (!member && end < s_.size() && (s_[end] == 'e' || s_[end] == 'E')) {
        std::size_t i = end + 1;
        std::string exponent = "e";
        if (i < s_.size() && (s_[i] == '+' || s_[i] == '-')) exponent += s_[i++];
        std::string power;
        if (i < s_.size() && digit(s_[i])) {
          end = digits(i, power, digit);
          text += exponent + power;
          floating = true;
        }
      }
      if (!floating && text.size() > 1 && text[0] == '0' && text.find_first_not_of('0') != std::string::npos) {
        fail(begin, "an integer with leading zeros, expected none");
      }
    }
    Lexeme& token = push(floating ? TokenType::floating : TokenType::integer, begin);
    std::from_chars_result result{};
    if (floating) {
      result = std::from_chars(text.data(), text.data() + text.size(), token.floating);
    } else {
      result = std::from_chars(text.data(), text.data() + text.size(), token.integer, base);
    }
    if (result.ec != std::errc()) fail(begin, "a number out of range, expected a 64-bit integer or a double");
    pos_ = end;
  }

  void string() {
    const char quote = s_[pos_];
    const std::size_t begin = pos_;
    std::string value;
    std::size_t i = pos_ + 1;
    for (;;) {
      if (i >= s_.size()) fail(begin, "a string without an end, expected a closing quote");
      if (s_[i] == quote) break;
      if (s_[i] == '\\') {
        i = escape(i + 1, value);
      } else {
        value += s_[i++];
      }
    }
    push(TokenType::string, begin, std::move(value));
    pos_ = i + 1;
  }

  // Python's unicode-escape; i is at the character after the backslash.
  std::size_t escape(std::size_t i, std::string& out) {
    if (i >= s_.size()) return i;
    const auto hex = [&](std::size_t count) {
      unsigned value = 0;
      if (i + 1 + count > s_.size()) fail(i - 1, "a truncated escape, expected hexadecimal digits");
      const char* first = s_.data() + i + 1;
      const auto result = std::from_chars(first, first + count, value, 16);
      if (result.ec != std::errc() || result.ptr != first + count) fail(i - 1, "a broken escape, expected hexadecimal digits");
      if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
        fail(i - 1, "an escape that is no character, expected a code point");
      append_utf8(out, value);
      return i + 1 + count;
    };
    switch (s_[i]) {
      case '\n':
        return i + 1;
      case '\\':
      case '\'':
      case '"':
        out += s_[i];
        return i + 1;
      case 'a':
        out += '\a';
        return i + 1;
      case 'b':
        out += '\b';
        return i + 1;
      case 'f':
        out += '\f';
        return i + 1;
      case 'n':
        out += '\n';
        return i + 1;
      case 'r':
        out += '\r';
        return i + 1;
      case 't':
        out += '\t';
        return i + 1;
      case 'v':
        out += '\v';
        return i + 1;
      case 'x':
        return hex(2);
      case 'u':
        return hex(4);
      case 'U':
        return hex(8);
      case 'N':
        fail(i - 1, "a named escape \\N, expected \\u");
      default:
        break;
    }
    if (s_[i] >= '0' && s_[i] <= '7') {
      char32_t value = 0;
      std::size_t end = i;
      while (end < s_.size() && end < i + 3 && s_[end] >= '0' && s_[end] <= '7')
        value = value * 8 + static_cast<char32_t>(s_[end++] - '0');
      append_utf8(out, value);
      return end;
    }
    out += '\\';
    return i;  // the character itself is read next; it is no quote and no backslash
  }

  std::string text_;
  std::string_view s_;
  std::size_t pos_ = 0;
  bool line_starting_ = true;
  std::size_t located_ = 0, line_start_ = 0;
  std::uint32_t line_ = 1, column_ = 1;
  std::vector<Lexeme> out_;
};

}  // namespace

std::vector<Lexeme> tokenize(std::string_view source) {
  if (source.size() > kMaxSource) {
    throw Error(Code::limit, "chat_template",
                fmt::format("got a template of {} bytes, expected at most {}", source.size(), kMaxSource));
  }
  return Lexer(source).run();
}

void template_error(Code code, std::uint32_t line, std::uint32_t column, std::string_view what) {
  throw Error(code, "chat_template", fmt::format("{}:{}: {}", line, column, what));
}

}  // namespace dsv31::inline v1::text::jinja
