#include "lib/text/jinja_unicode.h"

#include <utf8proc.h>

#include "lib/text/jinja_text.h"

namespace dsv31::inline v1::text::jinja {
namespace {

int category(char32_t c) noexcept { return c > 0x10FFFF ? UTF8PROC_CATEGORY_CN : utf8proc_category(static_cast<int>(c)); }

// Special casing to several characters (SpecialCasing.txt, unconditional part that real text meets).
const char* full_upper(char32_t c) noexcept {
  switch (c) {
    case 0xDF:
      return "SS";
    case 0x149:
      return "\xCA\xBCN";
    case 0x1F0:
      return "J\xCC\x8C";
    case 0xFB00:
      return "FF";
    case 0xFB01:
      return "FI";
    case 0xFB02:
      return "FL";
    case 0xFB03:
      return "FFI";
    case 0xFB04:
      return "FFL";
    case 0xFB05:
    case 0xFB06:
      return "ST";
    default:
      return nullptr;
  }
}

const char* full_title(char32_t c) noexcept {
  switch (c) {
    case 0xDF:
      return "Ss";
    case 0xFB00:
      return "Ff";
    case 0xFB01:
      return "Fi";
    case 0xFB02:
      return "Fl";
    case 0xFB03:
      return "Ffi";
    case 0xFB04:
      return "Ffl";
    case 0xFB05:
    case 0xFB06:
      return "St";
    default:
      return full_upper(c);
  }
}

void append_stray(std::string& out, char32_t c) { out.push_back(static_cast<char>(c - 0xDC00)); }
bool stray(char32_t c) noexcept { return c >= 0xDC80 && c <= 0xDCFF; }

}  // namespace

bool is_space(char32_t c) noexcept {
  if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool is_line_end(char32_t c) noexcept {
  return (c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_printable(char32_t c) noexcept {
  if (c < 0x7F) return c >= 0x20;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_alpha(char32_t c) noexcept {
  const int k = category(c);
  return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}
bool is_decimal(char32_t c) noexcept { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_digit(char32_t c) noexcept {
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468);
}
bool is_numeric(char32_t c) noexcept {
  const int k = category(c);
  return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}
bool is_alnum(char32_t c) noexcept { return is_alpha(c) || is_numeric(c); }
bool is_upper(char32_t c) noexcept { return c < 0x80 ? c >= 'A' && c <= 'Z' : category(c) == UTF8PROC_CATEGORY_LU; }
bool is_lower(char32_t c) noexcept {
  return c < 0x80 ? c >= 'a' && c <= 'z' : category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA;
}
bool is_title(char32_t c) noexcept { return category(c) == UTF8PROC_CATEGORY_LT; }
bool is_cased(char32_t c) noexcept { return is_upper(c) || is_lower(c) || is_title(c); }
bool is_word(char32_t c) noexcept { return c == '_' || is_alnum(c); }

void append_upper(std::string& out, char32_t c) {
  if (stray(c)) return append_stray(out, c);
  if (const char* s = full_upper(c)) {
    out += s;
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_toupper(static_cast<int>(c))));
  }
}

void append_lower(std::string& out, char32_t c) {
  if (stray(c)) return append_stray(out, c);
  if (c == 0x130) {
    out += "i\xCC\x87";
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<int>(c))));
  }
}

void append_title(std::string& out, char32_t c) {
  if (stray(c)) return append_stray(out, c);
  if (const char* s = full_title(c)) {
    out += s;
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_totitle(static_cast<int>(c))));
  }
}

}  // namespace dsv31::inline v1::text::jinja
