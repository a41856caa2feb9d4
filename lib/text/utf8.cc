#include "lib/text/utf8.h"

#include <cstring>

namespace dsv31::inline v1::text {

namespace {

// How many bytes at p form a proper prefix of some character (0 where not even the lead byte can start one).
std::size_t prefix_length(const char* p, const char* end) noexcept {
  const auto b = static_cast<unsigned char>(*p);
  if (b < 0xC2 || b > 0xF4) return 0;
  const std::size_t whole = b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
  std::size_t n = 1;
  while (n < whole && p + n < end) {
    const auto c = static_cast<unsigned char>(p[n]);
    unsigned char low = 0x80, high = 0xBF;
    if (n == 1) {
      if (b == 0xE0) low = 0xA0;
      if (b == 0xF0) low = 0x90;
      if (b == 0xED) high = 0x9F;
      if (b == 0xF4) high = 0x8F;
    }
    if (c < low || c > high) break;
    ++n;
  }
  return n;
}

}  // namespace

std::size_t utf8_run(std::string_view text, std::size_t from, bool& valid) noexcept {
  const char* p = text.data() + from;
  const char* const end = text.data() + text.size();
  valid = utf8_valid_length(p, end) != 0;
  if (!valid) {
    while (p < end && utf8_valid_length(p, end) == 0) ++p;
    return static_cast<std::size_t>(p - text.data());
  }
  while (p < end) {
    std::uint64_t word;
    while (end - p >= 8 && (std::memcpy(&word, p, 8), (word & 0x8080808080808080u) == 0)) p += 8;
    if (p == end) break;
    const std::size_t n = utf8_valid_length(p, end);
    if (n == 0) break;
    p += n;
  }
  return static_cast<std::size_t>(p - text.data());
}

void utf8_drain(std::string& held, std::string& out) {
  const char* p = held.data();
  const char* const end = p + held.size();
  while (p < end) {
    if (const std::size_t n = utf8_valid_length(p, end); n > 0) {
      out.append(p, n);
      p += n;
      continue;
    }
    const std::size_t n = prefix_length(p, end);
    if (n > 0 && p + n == end) break;
    out += "\xEF\xBF\xBD";
    p += n > 0 ? n : 1;
  }
  held.erase(0, static_cast<std::size_t>(p - held.data()));
}

}  // namespace dsv31::inline v1::text
