// Template text to tokens, with jinja2's rules for white space: trim_blocks and lstrip_blocks are on, as Hugging Face sets them.
//
// A newline right after a tag or comment goes, and so do blanks between a line start and a tag; "-" next to a tag takes all white
// space on that side, "+" keeps it. One trailing newline of the template goes. Line ends become "\n" first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dsv31/error.h"

namespace dsv31::inline v1::text::jinja {

enum class TokenType : std::uint8_t {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  floating,
  op,
  end,
};

struct Lexeme {
  TokenType type = TokenType::end;
  std::uint32_t line = 1, column = 1;
  std::string text;  // data, name, decoded string, or the operator's characters
  std::int64_t integer = 0;
  double floating = 0;
};

// Throws Error: format with line:column; limit for a source beyond 16 MiB.
std::vector<Lexeme> tokenize(std::string_view source);

// Every error of this engine is thrown through here: "[chat_template] 3:14: got ..., expected ...".
[[noreturn]] void template_error(Code code, std::uint32_t line, std::uint32_t column, std::string_view what);

}  // namespace dsv31::inline v1::text::jinja
