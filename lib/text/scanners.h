// Hand-written matchers of the patterns that most models use: no regular-expression engine, constant stack, one look at a
// character.
//
// A matcher is the pattern anchored at one place of a valid UTF-8 text: it returns the end of the match that starts at p, or p
// where none does. What it must return is defined by the pattern; a test compares both on random texts.
#pragma once

#include <string_view>

namespace dsv31::inline v1::text {

using Matcher = const char* (*)(const char* p, const char* end) noexcept;

struct Scanner {
  std::string_view pattern;  // as tokenizer.json writes it
  Matcher match;
};

// Null where the pattern has no scanner. Compared as text.
Matcher find_scanner(std::string_view pattern) noexcept;
// All of them, for the test.
const Scanner* scanners(std::size_t& count) noexcept;

namespace pattern_text {
inline constexpr std::string_view kNumber = R"(\p{N})";
inline constexpr std::string_view kNumbers = R"(\p{N}+)";
inline constexpr std::string_view kNumber3 = R"(\p{N}{1,3})";
inline constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kDeepSeekCjk = "[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+";
// The carriage returns and line feeds stand in the file as themselves.
inline constexpr std::string_view kDeepSeekV3 =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
    "?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";
}  // namespace pattern_text

}  // namespace dsv31::inline v1::text
