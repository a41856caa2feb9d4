#include "lib/text/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <new>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "dsv31/error.h"
#include "lib/text/utf8.h"

namespace dsv31::inline v1::text {

namespace {

constexpr std::size_t kMaxPatternBytes = 1u << 16;
// Starts times characters left: a fraction of a second of the slowest repeat.
constexpr std::size_t kStepsBetweenLooks = std::size_t{1} << 27;
constexpr std::size_t kJitStackStart = 32u << 10, kJitStackMax = 1u << 20;

void* take(PCRE2_SIZE n, void*) { return ::operator new(n, std::nothrow); }
void give(void* p, void*) { ::operator delete(p); }

struct FreeGeneral {
  void operator()(pcre2_general_context* c) const noexcept { pcre2_general_context_free(c); }
};
using General = std::unique_ptr<pcre2_general_context, FreeGeneral>;

General make_general() {
  General g(pcre2_general_context_create(take, give, nullptr));
  if (!g) throw std::bad_alloc();
  return g;
}

}  // namespace

PatternScratch::PatternScratch(std::chrono::nanoseconds budget) : deadline_(std::chrono::steady_clock::now() + budget) {
  const General general = make_general();
  data_ = pcre2_match_data_create(1, general.get());
  context_ = pcre2_match_context_create(general.get());
  stack_ = pcre2_jit_stack_create(kJitStackStart, kJitStackMax, general.get());  // null where there is no JIT
  if (data_ == nullptr || context_ == nullptr) {
    pcre2_match_data_free(data_);
    pcre2_match_context_free(context_);
    pcre2_jit_stack_free(stack_);
    throw std::bad_alloc();
  }
  if (stack_ != nullptr) pcre2_jit_stack_assign(context_, nullptr, stack_);
}

PatternScratch::~PatternScratch() {
  pcre2_match_data_free(data_);
  pcre2_match_context_free(context_);
  pcre2_jit_stack_free(stack_);
}

void PatternScratch::check_deadline() const {
  if (std::chrono::steady_clock::now() > deadline_)
    throw Error(Code::timeout, "tokenizer", "pre-tokenizer pattern: got a text on which it takes too long, expected less time");
}

void Pattern::Free::operator()(pcre2_real_code_8* code) const noexcept { pcre2_code_free(code); }

Pattern::Pattern(std::string_view source, std::string_view where, bool jit) {
  if (source.size() > kMaxPatternBytes)
    throw Error(Code::limit, where, fmt::format("pattern: got {} bytes, expected at most {}", source.size(), kMaxPatternBytes));
  const General general = make_general();
  struct FreeContext {
    void operator()(pcre2_compile_context* c) const noexcept { pcre2_compile_context_free(c); }
  };
  const std::unique_ptr<pcre2_compile_context, FreeContext> context(pcre2_compile_context_create(general.get()));
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), 64);
  int error = 0;
  PCRE2_SIZE at = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(source.data()), source.size(),
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT, &error,
                            &at, context.get()));
  if (!code_) {
    if (error == PCRE2_ERROR_NOMEMORY) throw std::bad_alloc();
    throw Error(Code::unsupported, where, fmt::format("pattern: got one that PCRE2 refuses (error {} at byte {})", error, at));
  }
  jit_ = jit && pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE) == 0;  // hosts may forbid executable memory
}

bool Pattern::search(std::string_view text, std::size_t from, PatternScratch& scratch, std::size_t& begin,
                     std::size_t& end) const {
  if ((++scratch.searches_ & 0xFF) == 0) scratch.check_deadline();
  const std::size_t left = text.size() - from;
  // A run of one class costs about a step a character when a greedy repeat gives its characters back.
  pcre2_set_match_limit(scratch.context_, static_cast<std::uint32_t>(std::min<std::size_t>(1'000'000 + 8 * left, UINT32_MAX)));
  const std::size_t kibibytes = 64 * 1024 + left / 128;
  pcre2_set_heap_limit(scratch.context_, static_cast<std::uint32_t>(std::min<std::size_t>(kibibytes, UINT32_MAX)));
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const std::size_t starts = std::max<std::size_t>(16, kStepsBetweenLooks / (left + 1));
  for (;;) {
    std::size_t last = text.size() - from > starts ? from + starts : text.size();
    while (last < text.size() && (static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
    pcre2_set_offset_limit(scratch.context_, last);
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;
    if (jit_) rc = pcre2_jit_match(code_.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK, scratch.data_, scratch.context_);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
      rc = pcre2_match(code_.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, scratch.data_,
                       scratch.context_);
    if (rc == PCRE2_ERROR_NOMATCH) {
      if (last == text.size()) return false;
      scratch.check_deadline();
      from = last + utf8_length(text[last]);
      continue;
    }
    if (rc == PCRE2_ERROR_NOMEMORY) throw std::bad_alloc();
    if (rc < 0)
      throw Error(Code::limit, "tokenizer",
                  fmt::format("pre-tokenizer pattern: got a text of {} bytes that makes it pass its limits (PCRE2 error {})",
                              text.size(), rc));
    const PCRE2_SIZE* o = pcre2_get_ovector_pointer(scratch.data_);
    begin = o[0];
    end = std::max(o[0], o[1]);  // \K may put the start behind the end
    return true;
  }
}

}  // namespace dsv31::inline v1::text
