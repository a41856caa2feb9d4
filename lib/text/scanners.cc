#include "lib/text/scanners.h"

#include <cstddef>

#include "lib/text/unicode.h"

namespace dsv31::inline v1::text {

namespace {

// The end of the run of characters that have one of `bits`.
inline const char* run(const char* p, const char* end, std::uint8_t bits) noexcept {
  while (p < end) {
    const Classified c = classify(p);
    if ((c.bits & bits) == 0) break;
    p += c.length;
  }
  return p;
}

// ... that have none of `bits`.
inline const char* run_without(const char* p, const char* end, std::uint8_t bits) noexcept {
  while (p < end) {
    const Classified c = classify(p);
    if ((c.bits & bits) != 0) break;
    p += c.length;
  }
  return p;
}

inline const char* newlines(const char* p, const char* end) noexcept {
  while (p < end && (*p == '\r' || *p == '\n')) ++p;
  return p;
}

// \s+(?!\S)|\s+ where a white-space character is at p: the run, without its last character if something follows and it has two.
inline const char* space_before_last(const char* p, const char* end) noexcept {
  const char* last = p;
  const char* q = p;
  while (q < end) {
    const Classified c = classify(q);
    if ((c.bits & kSpace) == 0) break;
    last = q;
    q += c.length;
  }
  return q == end || last == p ? q : last;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ where a white-space character is at p: up to the last line end of the run, if it has one.
inline const char* space_or_lines(const char* p, const char* end) noexcept {
  const char* last = p;
  const char* after_line = nullptr;
  const char* q = p;
  while (q < end) {
    const Classified c = classify(q);
    if ((c.bits & kSpace) == 0) break;
    last = q;
    q += c.length;
    if (c.bits & kNewline) after_line = q;
  }
  if (after_line != nullptr) return after_line;
  return q == end || last == p ? q : last;
}

const char* number(const char* p, const char* end) noexcept {
  if (p == end) return p;
  const Classified c = classify(p);
  return c.bits & kNumber ? p + c.length : p;
}

const char* numbers(const char* p, const char* end) noexcept { return run(p, end, kNumber); }

const char* number3(const char* p, const char* end) noexcept {
  for (int i = 0; i < 3 && p < end; ++i) {
    const Classified c = classify(p);
    if ((c.bits & kNumber) == 0) break;
    p += c.length;
  }
  return p;
}

// 's 't 're 've 'm 'll 'd, in either case if `any_case` (U+017F, the long s, is another case of s). Null for no match.
inline const char* contraction(const char* p, const char* end, bool any_case) noexcept {
  if (*p != '\'' || end - p < 2) return nullptr;
  const auto lower = [any_case](char c) { return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  const char a = lower(p[1]);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return p + 2;
  if (any_case && end - p >= 3 && p[1] == '\xC5' && p[2] == '\xBF') return p + 3;
  if (end - p < 3) return nullptr;
  const char b = lower(p[2]);
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return p + 3;
  return nullptr;
}

const char* gpt2(const char* p, const char* end) noexcept {
  if (p == end) return p;
  if (const char* q = contraction(p, end, false)) return q;
  const char* q = p + (*p == ' ');
  if (q < end) {
    const Classified c = classify(q);
    if (c.bits & kLetter) return run(q, end, kLetter);
    if (c.bits & kNumber) return run(q, end, kNumber);
    if ((c.bits & kSpace) == 0) return run_without(q, end, kSpace | kLetter | kNumber);
  }
  return space_before_last(p, end);
}

template <int MaxNumbers>
const char* llama3(const char* p, const char* end) noexcept {
  if (p == end) return p;
  if (const char* q = contraction(p, end, true)) return q;
  const Classified c = classify(p);
  if (c.bits & kLetter) return run(p, end, kLetter);
  if ((c.bits & (kNewline | kNumber)) == 0) {
    const char* q = run(p + c.length, end, kLetter);
    if (q != p + c.length) return q;
  }
  if (c.bits & kNumber) return MaxNumbers == 1 ? p + c.length : number3(p, end);
  const char* q = p + (*p == ' ');
  if (q < end && (classify(q).bits & (kSpace | kLetter | kNumber)) == 0)
    return newlines(run_without(q, end, kSpace | kLetter | kNumber), end);
  return space_or_lines(p, end);
}

inline bool deepseek_cjk(std::uint32_t c) noexcept { return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF); }

const char* deepseek_cjk_run(const char* p, const char* end) noexcept {
  while (p < end && static_cast<unsigned char>(*p) >= 0xE3) {
    const Character c = utf8_decode(p);
    if (!deepseek_cjk(c.code)) break;
    p += c.length;
  }
  return p;
}

const char* deepseek_v3(const char* p, const char* end) noexcept {
  if (p == end) return p;
  const Classified c = classify(p);
  if (static_cast<unsigned char>(*p) < 0x80 && (c.bits & (kPunctuation | kSymbol))) {
    const char* q = run(p + 1, end, kAsciiLetter);
    if (q != p + 1) return q;
  }
  if (c.bits & (kLetter | kMark)) return run(p, end, kLetter | kMark);
  if ((c.bits & (kNewline | kPunctuation | kSymbol)) == 0) {
    const char* q = run(p + c.length, end, kLetter | kMark);
    if (q != p + c.length) return q;
  }
  const char* q = p + (*p == ' ');
  if (q < end && (classify(q).bits & (kPunctuation | kSymbol))) return newlines(run(q, end, kPunctuation | kSymbol), end);
  return c.bits & kSpace ? space_or_lines(p, end) : p;
}

constexpr Scanner kScanners[] = {
    {pattern_text::kNumber, number},
    {pattern_text::kNumbers, numbers},
    {pattern_text::kNumber3, number3},
    {pattern_text::kGpt2, gpt2},
    {pattern_text::kLlama3, llama3<3>},
    {pattern_text::kQwen2, llama3<1>},
    {pattern_text::kDeepSeekCjk, deepseek_cjk_run},
    {pattern_text::kDeepSeekV3, deepseek_v3},
};

}  // namespace

Matcher find_scanner(std::string_view pattern) noexcept {
  for (const Scanner& s : kScanners)
    if (s.pattern == pattern) return s.match;
  return nullptr;
}

const Scanner* scanners(std::size_t& count) noexcept {
  count = sizeof kScanners / sizeof kScanners[0];
  return kScanners;
}

}  // namespace dsv31::inline v1::text
