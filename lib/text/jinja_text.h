// Strings of the template interpreter: bytes that remember whether they come from the template or from data.
//
// A control token may match only where all of its bytes are template text, so every string operation has to carry the origin of
// each byte. A Text is a byte string with a list of runs of equal origin; the list is empty while the whole string has one
// origin, which is nearly always, so that the common case costs one flag.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "dsv31/tokenizer.h"

namespace dsv31::inline v1::text::jinja {

class Text {
 public:
  Text() = default;
  Text(std::string_view bytes, bool trusted) { append(bytes, trusted); }

  const std::string& bytes() const noexcept { return bytes_; }
  std::string_view view() const noexcept { return bytes_; }
  std::size_t size() const noexcept { return bytes_.size(); }
  bool empty() const noexcept { return bytes_.empty(); }
  bool ascii() const noexcept { return ascii_; }
  std::size_t cost() const noexcept { return bytes_.capacity() + runs_.capacity() * sizeof(Run); }

  void append(std::string_view bytes, bool trusted);
  void append(const Text& other) { append(other, 0, other.size()); }
  void append(const Text& other, std::size_t begin, std::size_t end);  // bytes [begin, end) of other
  // Bytes that stand for bytes [begin, end) of `origin` (their upper case, their JSON escape): trusted where all of those are.
  void append_for(std::string_view bytes, const Text& origin, std::size_t begin, std::size_t end) {
    append(bytes, origin.trusted(begin, end));
  }
  void reserve(std::size_t bytes) { bytes_.reserve(bytes); }

  bool trusted(std::size_t begin, std::size_t end) const noexcept;  // all bytes of [begin, end)
  std::vector<PromptText::Range> trusted_ranges() const;
  Text slice(std::size_t begin, std::size_t end) const;

  // Python counts code points. A byte that belongs to no valid sequence counts as one character.
  std::size_t length() const noexcept;
  std::size_t offset(std::size_t index) const noexcept;  // byte offset of character `index`, size() past the end

  std::string take_bytes() { return std::move(bytes_); }

 private:
  struct Run {
    std::size_t end;
    bool trusted;
  };
  std::size_t run_at(std::size_t byte) const noexcept;

  std::string bytes_;
  std::vector<Run> runs_;  // ascending ends, alternating origin, the last end is bytes_.size(); empty: all of origin trusted_
  bool trusted_ = false;
  bool ascii_ = true;
};

// Length in bytes of the character at `at`: 1 for bytes that are not valid UTF-8. REQUIRES: at < s.size().
std::size_t char_size(std::string_view s, std::size_t at) noexcept;
// Its code point; a stray byte b gives 0xDC00 + b, as Python's surrogateescape does.
char32_t char_at(std::string_view s, std::size_t at, std::size_t& size) noexcept;
void append_utf8(std::string& out, char32_t c);

// First position >= from where `needle` occurs, npos if none; linear for every needle.
std::size_t find_bytes(std::string_view hay, std::string_view needle, std::size_t from = 0);

}  // namespace dsv31::inline v1::text::jinja
