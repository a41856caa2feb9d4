// UTF-8 as the tokenizers see it: text is bytes, of which maximal valid runs are characters and the rest are lone bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dsv31::inline v1::text {

// Length of the valid character at p, 0 where none starts there. Overlong forms, surrogates and values above U+10FFFF are
// invalid.
inline std::size_t utf8_valid_length(const char* p, const char* end) noexcept {
  const auto at = [&](std::ptrdiff_t i) { return static_cast<unsigned char>(p[i]); };
  const unsigned char b = at(0);
  if (b < 0x80) return 1;
  const std::ptrdiff_t left = end - p;
  if (b < 0xC2 || b > 0xF4) return 0;
  if (left < 2) return 0;
  if (b < 0xE0) return (at(1) & 0xC0) == 0x80 ? 2 : 0;
  const unsigned char low = b == 0xE0 ? 0xA0 : b == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = b == 0xED ? 0x9F : b == 0xF4 ? 0x8F : 0xBF;
  if (at(1) < low || at(1) > high) return 0;
  if (left < 3 || (at(2) & 0xC0) != 0x80) return 0;
  if (b < 0xF0) return 3;
  return left >= 4 && (at(3) & 0xC0) == 0x80 ? 4 : 0;
}

// Length by the lead byte alone; the text is known to be valid.
inline std::size_t utf8_length(char lead) noexcept {
  const auto b = static_cast<unsigned char>(lead);
  return b < 0x80 ? 1 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
}

struct Character {
  std::uint32_t code = 0;
  std::size_t length = 1;
};

// The character at p of a valid text.
inline Character utf8_decode(const char* p) noexcept {
  const auto at = [&](int i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(p[i])); };
  const std::uint32_t b = at(0);
  if (b < 0x80) return {b, 1};
  if (b < 0xE0) return {(b & 0x1F) << 6 | (at(1) & 0x3F), 2};
  if (b < 0xF0) return {(b & 0x0F) << 12 | (at(1) & 0x3F) << 6 | (at(2) & 0x3F), 3};
  return {(b & 0x07) << 18 | (at(1) & 0x3F) << 12 | (at(2) & 0x3F) << 6 | (at(3) & 0x3F), 4};
}

inline void utf8_append(std::string& to, std::uint32_t c) {
  if (c < 0x80) {
    to += static_cast<char>(c);
  } else if (c < 0x800) {
    to += static_cast<char>(0xC0 | c >> 6);
    to += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    to += static_cast<char>(0xE0 | c >> 12);
    to += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    to += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    to += static_cast<char>(0xF0 | c >> 18);
    to += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    to += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    to += static_cast<char>(0x80 | (c & 0x3F));
  }
}

// End of the maximal run at `from` that is valid throughout, or invalid throughout; `valid` tells which.
std::size_t utf8_run(std::string_view text, std::size_t from, bool& valid) noexcept;

// Moves every complete character of `held` to `out`. Bytes that can belong to no character become U+FFFD, one for each maximal
// prefix of a character (as the WHATWG decoder does); a prefix that more bytes may complete stays in `held`.
void utf8_drain(std::string& held, std::string& out);

}  // namespace dsv31::inline v1::text
