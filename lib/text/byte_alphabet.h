// The alphabet in which byte-level BPE spells bytes: printable Latin-1 characters stand for themselves, the other 68 bytes for
// U+0100, U+0101, ... in ascending order (so a space is U+0120 and a line feed U+010A).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/text/utf8.h"

namespace dsv31::inline v1::text {

namespace detail {
struct ByteAlphabet {
  std::array<std::uint16_t, 256> code{};  // character of a byte
  std::array<std::int16_t, 324> byte{};   // byte of a character below U+0144, -1 for none
};
constexpr ByteAlphabet make_byte_alphabet() {
  ByteAlphabet t{};
  for (auto& b : t.byte) b = -1;
  unsigned next = 256;
  for (unsigned b = 0; b < 256; ++b) {
    const bool itself = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    const unsigned c = itself ? b : next++;
    t.code[b] = static_cast<std::uint16_t>(c);
    t.byte[c] = static_cast<std::int16_t>(b);
  }
  return t;
}
inline constexpr ByteAlphabet kByteAlphabet = make_byte_alphabet();
}  // namespace detail

inline std::string spell_byte(std::uint8_t b) {
  std::string s;
  utf8_append(s, detail::kByteAlphabet.code[b]);
  return s;
}

// Appends the bytes that valid UTF-8 text spells; false, with nothing appended, where a character is not of the alphabet.
inline bool read_byte_alphabet(std::string_view s, std::string& to) {
  const std::size_t start = to.size();
  for (std::size_t i = 0; i < s.size();) {
    const Character c = utf8_decode(s.data() + i);
    if (c.code >= detail::kByteAlphabet.byte.size() || detail::kByteAlphabet.byte[c.code] < 0) {
      to.resize(start);
      return false;
    }
    to += static_cast<char>(detail::kByteAlphabet.byte[c.code]);
    i += c.length;
  }
  return true;
}

}  // namespace dsv31::inline v1::text
