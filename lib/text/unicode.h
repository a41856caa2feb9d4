// The character classes that pre-tokenizer patterns are made of.
#pragma once

#include <array>
#include <cstdint>

#include "lib/text/utf8.h"

namespace dsv31::inline v1::text {

// Bits of a character's class. White_Space follows the Unicode property (what \s means in the patterns of tokenizer.json), which
// is not PCRE2's \s: that one adds U+180E.
enum CharClass : std::uint8_t {
  kLetter = 1,        // \p{L}
  kMark = 2,          // \p{M}
  kNumber = 4,        // \p{N}
  kPunctuation = 8,   // \p{P}
  kSymbol = 16,       // \p{S}
  kSpace = 32,        // White_Space
  kNewline = 64,      // CR and LF, which are White_Space too
  kAsciiLetter = 128  // A-Z and a-z, which are letters too
};

std::uint8_t class_of_other(std::uint32_t code) noexcept;  // of a character above ASCII

namespace detail {
constexpr std::array<std::uint8_t, 128> make_ascii_classes() {
  std::array<std::uint8_t, 128> t{};
  for (unsigned c = 0; c < 128; ++c) {
    if ((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')) t[c] = kLetter | kAsciiLetter;
    if (c >= '0' && c <= '9') t[c] = kNumber;
    if (c == ' ' || (c >= 9 && c <= 13)) t[c] = kSpace;
    if (c == '\r' || c == '\n') t[c] = kSpace | kNewline;
    for (char s : {'$', '+', '<', '=', '>', '^', '`', '|', '~'})
      if (c == static_cast<unsigned>(s)) t[c] = kSymbol;
    for (char s :
         {'!', '"', '#', '%', '&', '\'', '(', ')', '*', ',', '-', '.', '/', ':', ';', '?', '@', '[', '\\', ']', '_', '{', '}'})
      if (c == static_cast<unsigned>(s)) t[c] = kPunctuation;
  }
  return t;
}
inline constexpr std::array<std::uint8_t, 128> kAsciiClasses = make_ascii_classes();
}  // namespace detail

inline std::uint8_t class_of(std::uint32_t code) noexcept {
  return code < 128 ? detail::kAsciiClasses[code] : class_of_other(code);
}

// Class and length of the character at p of a valid text.
struct Classified {
  std::uint8_t bits;
  std::uint8_t length;
};
inline Classified classify(const char* p) noexcept {
  const auto b = static_cast<unsigned char>(*p);
  if (b < 128) return {detail::kAsciiClasses[b], 1};
  const Character c = utf8_decode(p);
  return {class_of_other(c.code), static_cast<std::uint8_t>(c.length)};
}

}  // namespace dsv31::inline v1::text
