// Characters as Python's str methods see them: white space, line ends, classes and case.
#pragma once

#include <string>

namespace dsv31::inline v1::text::jinja {

bool is_space(char32_t c) noexcept;      // str.isspace, str.strip, and \s of Python's re
bool is_line_end(char32_t c) noexcept;   // str.splitlines
bool is_printable(char32_t c) noexcept;  // str.isprintable, as repr uses it
bool is_alpha(char32_t c) noexcept;      // categories Lm Lt Lu Ll Lo
bool is_decimal(char32_t c) noexcept;    // Nd
bool is_digit(char32_t c) noexcept;      // Nd and the superscript digits
bool is_numeric(char32_t c) noexcept;    // Nd Nl No
bool is_alnum(char32_t c) noexcept;
bool is_upper(char32_t c) noexcept;
bool is_lower(char32_t c) noexcept;
bool is_title(char32_t c) noexcept;
bool is_cased(char32_t c) noexcept;
bool is_word(char32_t c) noexcept;  // \w of Python's re

// Append the upper, lower or title case of c in UTF-8; one character may become several.
void append_upper(std::string& out, char32_t c);
void append_lower(std::string& out, char32_t c);
void append_title(std::string& out, char32_t c);

}  // namespace dsv31::inline v1::text::jinja
