#include "lib/text/jinja_text.h"

#include <algorithm>
#include <cstdint>

namespace dsv31::inline v1::text::jinja {

void Text::append(std::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  if (bytes_.empty()) {
    trusted_ = trusted;
  } else if (runs_.empty()) {
    if (trusted != trusted_) runs_ = {{bytes_.size(), trusted_}, {bytes_.size(), trusted}};
  } else if (runs_.back().trusted != trusted) {
    runs_.push_back({bytes_.size(), trusted});
  }
  if (ascii_) ascii_ = std::none_of(bytes.begin(), bytes.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
  bytes_.append(bytes);
  if (!runs_.empty()) runs_.back().end = bytes_.size();
}

void Text::append(const Text& other, std::size_t begin, std::size_t end) {
  const std::string_view bytes = other.bytes_;
  if (other.runs_.empty()) {
    append(bytes.substr(begin, end - begin), other.trusted_);
    return;
  }
  for (std::size_t run = other.run_at(begin); begin < end; ++run) {
    const std::size_t stop = std::min(end, other.runs_[run].end);
    append(bytes.substr(begin, stop - begin), other.runs_[run].trusted);
    begin = stop;
  }
}

std::size_t Text::run_at(std::size_t byte) const noexcept {
  const auto it = std::upper_bound(runs_.begin(), runs_.end(), byte, [](std::size_t b, const Run& r) { return b < r.end; });
  return static_cast<std::size_t>(it - runs_.begin());
}

bool Text::trusted(std::size_t begin, std::size_t end) const noexcept {
  if (begin >= end) return false;
  if (runs_.empty()) return trusted_;
  const Run& run = runs_[run_at(begin)];
  return run.trusted && run.end >= end;
}

std::vector<PromptText::Range> Text::trusted_ranges() const {
  std::vector<PromptText::Range> ranges;
  if (runs_.empty()) {
    if (trusted_ && !bytes_.empty()) ranges.push_back({0, bytes_.size()});
    return ranges;
  }
  std::size_t begin = 0;
  for (const Run& run : runs_) {
    if (run.trusted) ranges.push_back({begin, run.end});
    begin = run.end;
  }
  return ranges;
}

Text Text::slice(std::size_t begin, std::size_t end) const {
  Text out;
  out.append(*this, begin, end);
  return out;
}

std::size_t Text::length() const noexcept {
  if (ascii_) return bytes_.size();
  std::size_t n = 0;
  for (std::size_t i = 0; i < bytes_.size(); i += char_size(bytes_, i)) ++n;
  return n;
}

std::size_t Text::offset(std::size_t index) const noexcept {
  if (ascii_) return std::min(index, bytes_.size());
  std::size_t i = 0;
  while (index > 0 && i < bytes_.size()) {
    i += char_size(bytes_, i);
    --index;
  }
  return i;
}

char32_t char_at(std::string_view s, std::size_t at, std::size_t& size) noexcept {
  const auto byte = [&](std::size_t i) -> unsigned { return at + i < s.size() ? static_cast<unsigned char>(s[at + i]) : 0u; };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const unsigned b = byte(0);
  size = 1;
  if (b < 0x80) return b;
  if (b >= 0xC2 && b < 0xE0 && tail(1)) {
    size = 2;
    return (b & 0x1F) << 6 | (byte(1) & 0x3F);
  }
  if (b >= 0xE0 && b < 0xF0 && tail(1) && tail(2)) {
    const char32_t c = (b & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    if (c >= 0x800 && (c < 0xD800 || c > 0xDFFF)) {
      size = 3;
      return c;
    }
  }
  if (b >= 0xF0 && b < 0xF5 && tail(1) && tail(2) && tail(3)) {
    const char32_t c = (b & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    if (c >= 0x10000 && c <= 0x10FFFF) {
      size = 4;
      return c;
    }
  }
  return 0xDC00 + b;
}

std::size_t char_size(std::string_view s, std::size_t at) noexcept {
  std::size_t size = 1;
  char_at(s, at, size);
  return size;
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](char32_t b) { out.push_back(static_cast<char>(b)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

std::size_t find_bytes(std::string_view hay, std::string_view needle, std::size_t from) {
  if (from > hay.size() || needle.size() > hay.size() - from) return std::string_view::npos;
  if (needle.size() <= 32 || needle.size() > 0xFFFFFFFF) return hay.find(needle, from);
  // Knuth, Morris and Pratt: the library's search is quadratic for needles like "aaa...b".
  std::vector<std::uint32_t> border(needle.size(), 0);
  for (std::uint32_t i = 1, k = 0; i < needle.size(); ++i) {
    while (k > 0 && needle[i] != needle[k]) k = border[k - 1];
    if (needle[i] == needle[k]) ++k;
    border[i] = k;
  }
  for (std::size_t i = from, k = 0; i < hay.size(); ++i) {
    while (k > 0 && hay[i] != needle[k]) k = border[k - 1];
    if (hay[i] == needle[k]) ++k;
    if (k == needle.size()) return i + 1 - k;
  }
  return std::string_view::npos;
}

}  // namespace dsv31::inline v1::text::jinja
