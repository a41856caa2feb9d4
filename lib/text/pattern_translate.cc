// Oniguruma's pattern language (as Hugging Face tokenizers use it) to PCRE2's.
//
// The two agree on most of what pre-tokenizers write. Rewritten here: \s is White_Space, \w is letters, marks, digits,
// connectors, the Latin-1 fractions and powers, circled letters, \h is a hexadecimal digit, \v a vertical tab, \p{Han} the script
// without its extensions, and a class intersection [A&&[^B]] becomes a look-ahead before [A].
#include <fmt/format.h>

#include <array>

#include "dsv31/error.h"
#include "lib/text/pattern.h"

namespace dsv31::inline v1::text {

namespace {

constexpr std::string_view kSpaceRanges =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNotSpaceRanges =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
constexpr std::string_view kWordItems =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";

// Scripts and only scripts: PCRE2 reads a bare script name as script extensions.
constexpr std::array<std::string_view, 27> kScripts = {
    "Han",    "Hiragana", "Katakana", "Hangul",    "Latin",      "Greek",   "Cyrillic", "Armenian", "Georgian",
    "Arabic", "Hebrew",   "Syriac",   "Thaana",    "Devanagari", "Bengali", "Gurmukhi", "Gujarati", "Oriya",
    "Tamil",  "Telugu",   "Kannada",  "Malayalam", "Sinhala",    "Thai",    "Lao",      "Tibetan",  "Khmer"};

class Translator {
 public:
  Translator(std::string_view pattern, std::string_view where) : in_(pattern), where_(where) {}

  std::string run() {
    while (i_ < in_.size()) {
      const char c = in_[i_];
      if (c == '[') {
        out_ += character_class(false);
      } else if (c == '\\') {
        escape(out_, false);
      } else {
        if (in_.substr(i_, 2) == "(?") check_flags();
        out_ += c;
        ++i_;
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw Error(Code::unsupported, where_, fmt::format("pattern: got {} at byte {}, which is not supported", what, i_));
  }

  // The flags m, s and x are read differently.
  void check_flags() const {
    for (std::size_t i = i_ + 2; i < in_.size() && ((in_[i] >= 'a' && in_[i] <= 'z') || in_[i] == '-'); ++i)
      if (in_[i] != 'i' && in_[i] != '-') refuse("a flag other than i");
  }

  // i_ is at a backslash.
  void escape(std::string& to, bool in_class) {
    if (i_ + 1 >= in_.size()) refuse("a lone backslash");
    const char c = in_[i_ + 1];
    i_ += 2;
    const auto set = [&](std::string_view items, bool negated) {
      if (in_class)
        to += items;
      else
        to.append(negated ? "[^" : "[").append(items).append("]");
    };
    switch (c) {
      case 's':
        return set(kSpaceRanges, false);
      case 'S':
        if (in_class) return set(kNotSpaceRanges, false);
        return set(kSpaceRanges, true);
      case 'w':
        return set(kWordItems, false);
      case 'W':
        if (in_class) refuse("\\W in a class");
        return set(kWordItems, true);
      case 'h':
        return set("0-9A-Fa-f", false);
      case 'H':
        if (in_class) refuse("\\H in a class");
        return set("0-9A-Fa-f", true);
      case 'v':
        to += "\\x{b}";
        return;
      case 'b':
        if (in_class) break;
        to += fmt::format("(?:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))", kWordItems);
        return;
      case 'B':
        to += fmt::format("(?:(?<=[{0}])(?=[{0}])|(?<![{0}])(?![{0}]))", kWordItems);
        return;
      case 'u': {
        if (i_ + 4 > in_.size()) refuse("a short \\u");
        to.append("\\x{").append(in_.substr(i_, 4)).append("}");
        i_ += 4;
        return;
      }
      case 'p':
      case 'P':
        return property(to, c);
      case 'C':
      case 'G':
      case 'g':
      case 'k':
      case 'K':
      case 'N':
      case 'O':
      case 'X':
      case 'y':
      case 'Y':
        refuse("a construct with another meaning");
      default:
        break;
    }
    if (static_cast<unsigned char>(c) < 0x80) to += '\\';  // an escaped character of more bytes stands for itself
    to += c;
  }

  void property(std::string& to, char letter) {
    if (i_ >= in_.size()) refuse("a short \\p");
    if (in_[i_] != '{') {
      to.append({'\\', letter, in_[i_]});
      ++i_;
      return;
    }
    const std::size_t end = in_.find('}', i_);
    if (end == std::string_view::npos) refuse("a \\p without end");
    std::string_view name = in_.substr(i_ + 1, end - i_ - 1);
    i_ = end + 1;
    bool negated = letter == 'P';
    if (!name.empty() && name[0] == '^') negated = !negated, name.remove_prefix(1);
    for (const std::string_view script : kScripts)
      if (name == script) {
        to += fmt::format("\\{}{{sc:{}}}", negated ? 'P' : 'p', name);
        return;
      }
    to += fmt::format("\\{}{{{}}}", negated ? 'P' : 'p', name);
  }

  // i_ is at '['. Returns the class, with a look-ahead before it where it is an intersection.
  std::string character_class(bool nested) {
    std::string ahead;
    std::string items = "[";
    ++i_;
    const bool negated = i_ < in_.size() && in_[i_] == '^';
    if (negated) items += '^', ++i_;
    bool first = true;
    for (;; first = false) {
      if (i_ >= in_.size()) refuse("a class without end");
      const char c = in_[i_];
      if (c == ']' && !first) {
        ++i_;
        return ahead.empty() ? items + "]" : "(?:" + ahead + items + "])";
      }
      if (c == '\\') {
        escape(items, true);
      } else if (c == '[') {
        if (in_.substr(i_, 2) != "[:") refuse("a class inside a class");
        const std::size_t end = in_.find(":]", i_);
        if (end == std::string_view::npos) refuse("a class name without end");
        items += in_.substr(i_, end + 2 - i_);
        i_ = end + 2;
      } else if (c == '&' && in_.substr(i_, 2) == "&&") {
        if (negated || nested || in_.substr(i_ + 2, 1) != "[") refuse("an intersection of this form");
        i_ += 2;
        const std::string other = character_class(true);
        ahead += "(?=" + other + ")";
      } else {
        items += c;
        ++i_;
      }
    }
  }

  std::string_view in_, where_;
  std::size_t i_ = 0;
  std::string out_;
};

}  // namespace

std::string translate_pattern(std::string_view pattern, std::string_view where) {
  if (pattern.size() > (1u << 16))
    throw Error(Code::limit, where, fmt::format("pattern: got {} bytes, expected at most 65536", pattern.size()));
  return Translator(pattern, where).run();
}

}  // namespace dsv31::inline v1::text
