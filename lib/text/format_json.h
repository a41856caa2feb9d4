// JSON in chat formats: written as Python writes it, and followed byte by byte while it streams.
#pragma once

#include <string>
#include <string_view>

#include "lib/io/json.h"

namespace dsv31::inline v1::text {

// json.dumps(value, ensure_ascii=False).
std::string python_json(const io::Json& value);

// Bytes of a text as they stand inside a JSON string; may be called piece by piece.
void append_json_escaped(std::string& out, std::string_view bytes);

// The members of the object `json` (valid JSON) as they are spelled there: its text from the first byte of the value to the last.
// Empty where there is no such member.
std::string_view raw_member(std::string_view json, std::string_view key);

// Follows one JSON value that begins with { or [, a byte at a time: where it ends, and whether the next byte stands in a string.
class JsonFollower {
 public:
  bool started() const noexcept { return started_; }
  bool done() const noexcept { return started_ && depth_ == 0; }
  bool in_string() const noexcept { return string_; }
  void push(char c) noexcept {
    started_ = true;
    if (string_) {
      if (escape_)
        escape_ = false;
      else if (c == '\\')
        escape_ = true;
      else if (c == '"')
        string_ = false;
    } else if (c == '"') {
      string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      --depth_;
    }
  }

 private:
  std::size_t depth_ = 0;
  bool started_ = false, string_ = false, escape_ = false;
};

}  // namespace dsv31::inline v1::text
