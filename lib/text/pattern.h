// Regular expressions of pre-tokenizers, compiled by PCRE2.
//
// The patterns in tokenizer.json are written for Oniguruma with Unicode classes. translate_pattern rewrites what PCRE2 reads
// differently (\s, \w, \h, \v, scripts, class intersection) and refuses what it cannot say. Matching needs no machine stack in
// proportion to the text: frames and the stack of compiled code are on the heap, and steps and memory are limited, so that a
// pattern made to backtrack ends in a limit error.
#pragma once

#include <cstddef>
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

// What matching needs; one per thread, shared by all patterns.
class PatternScratch {
 public:
  PatternScratch();
  PatternScratch(const PatternScratch&) = delete;
  PatternScratch& operator=(const PatternScratch&) = delete;
  ~PatternScratch();

 private:
  friend class Pattern;
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

  // The first match at or after `from` in a valid UTF-8 text. Throws limit.
  bool search(std::string_view text, std::size_t from, PatternScratch& scratch, std::size_t& begin, std::size_t& end) const;

 private:
  struct Free {
    void operator()(pcre2_real_code_8* code) const noexcept;
  };
  std::unique_ptr<pcre2_real_code_8, Free> code_;
  bool jit_ = false;
};

}  // namespace dsv31::inline v1::text
