// Regular expressions of pre-tokenizers, compiled by PCRE2.
//
// The patterns in tokenizer.json are written for Oniguruma with Unicode classes. translate_pattern rewrites what PCRE2 reads
// differently (\s, \w, \h, \v, scripts, class intersection) and refuses what it cannot say. Matching needs no machine stack in
// proportion to the text: frames and the stack of compiled code are on the heap. Steps and memory of a match are limited. PCRE2
// does not count the characters that one repeat runs over, so a search tries only so many starts at a time and looks at a
// deadline between: a pattern made to be slow ends in an error.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;
struct pcre2_real_jit_stack_8;

namespace dsv31::inline v1::text {

// Throws unsupported, naming the construct.
std::string translate_pattern(std::string_view pattern, std::string_view where);

// Ten seconds and ten microseconds a byte: a hundred times what the patterns of known models take.
inline std::chrono::nanoseconds pattern_budget(std::size_t text_bytes) noexcept {
  return std::chrono::seconds(10) + std::chrono::microseconds(10) * static_cast<std::int64_t>(text_bytes);
}

// What matching needs; one per thread and text, shared by all patterns.
class PatternScratch {
 public:
  explicit PatternScratch(std::chrono::nanoseconds budget);
  PatternScratch(const PatternScratch&) = delete;
  PatternScratch& operator=(const PatternScratch&) = delete;
  ~PatternScratch();

 private:
  friend class Pattern;
  void check_deadline() const;

  std::chrono::steady_clock::time_point deadline_;
  std::uint32_t searches_ = 0;
  pcre2_real_match_data_8* data_ = nullptr;
  pcre2_real_match_context_8* context_ = nullptr;
  pcre2_real_jit_stack_8* stack_ = nullptr;
};

class Pattern {
 public:
  // `source` is as PCRE2 reads it. Throws unsupported where PCRE2 refuses it. Without jit the interpreter matches.
  Pattern(std::string_view source, std::string_view where, bool jit = true);
  Pattern(Pattern&&) noexcept = default;
  Pattern& operator=(Pattern&&) noexcept = default;

  // The first match at or after `from` in a valid UTF-8 text. Throws limit and timeout.
  bool search(std::string_view text, std::size_t from, PatternScratch& scratch, std::size_t& begin, std::size_t& end) const;

 private:
  struct Free {
    void operator()(pcre2_real_code_8* code) const noexcept;
  };
  std::unique_ptr<pcre2_real_code_8, Free> code_;
  bool jit_ = false;
};

}  // namespace dsv31::inline v1::text
