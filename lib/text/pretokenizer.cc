#include "lib/text/pretokenizer.h"

#include <fmt/format.h>

#include "lib/text/unicode.h"
#include "lib/text/utf8.h"

namespace dsv31::inline v1::text {

namespace {

const char* punctuation(const char* p, const char* end) noexcept {
  if (p == end) return p;
  const Classified c = classify(p);
  const bool ascii_symbol = c.length == 1 && (c.bits & kSymbol);
  return (c.bits & kPunctuation) || ascii_symbol ? p + c.length : p;
}

const char* white_space(const char* p, const char* end) noexcept {
  if (p == end) return p;
  const Classified c = classify(p);
  return c.bits & kSpace ? p + c.length : p;
}

const char* digit(const char* p, const char* end) noexcept {
  if (p == end) return p;
  const Classified c = classify(p);
  return c.bits & kNumber ? p + c.length : p;
}

// \s+$ is tried at each character of a run of white space that something follows, to the end of the run: quadratic. A match
// can begin at the start of a run only, since it reaches to the last place of the run that ends a line; so the look-behind
// changes no match.
std::string_view linear_form(std::string_view pattern) noexcept {
  return pattern == R"(\s+$)" ? std::string_view(R"((?<!\s)\s+$)") : pattern;
}

}  // namespace

PreTokenizer::PreTokenizer(const std::vector<SplitStep>& steps, PreTokenizerOptions options) {
  if (steps.size() > kMaxSplitSteps)
    throw Error(Code::limit, "tokenizer",
                fmt::format("pre-tokenizer: got {} steps, expected at most {}", steps.size(), kMaxSplitSteps));
  for (const SplitStep& s : steps) {
    Step& to = steps_.emplace_back(Step{s.kind, s.behavior, s.invert, {}, nullptr, nullptr});
    switch (s.kind) {
      case SplitStep::Kind::literal:
        if (s.pattern.empty())
          throw Error(Code::format, "tokenizer", "pre-tokenizer: got an empty text to split at, expected one byte at least");
        to.literal = s.pattern;
        break;
      case SplitStep::Kind::digits:
        to.matcher = digit;
        break;
      case SplitStep::Kind::punctuation:
        to.matcher = punctuation;
        break;
      case SplitStep::Kind::white_space:
        to.matcher = white_space;
        break;
      case SplitStep::Kind::pattern:
        if (options.scanners) to.matcher = find_scanner(s.pattern);
        if (to.matcher == nullptr)
          to.pattern =
              std::make_unique<Pattern>(translate_pattern(linear_form(s.pattern), "tokenizer"), "tokenizer", options.jit);
    }
  }
}

std::unique_ptr<PatternScratch> PreTokenizer::make_scratch(std::size_t text_bytes) const {
  for (const Step& s : steps_)
    if (s.pattern) return std::make_unique<PatternScratch>(pattern_budget(text_bytes));
  return nullptr;
}

// Turns the matches and gaps of one step into pieces. At most one segment waits for its neighbour.
struct PreTokenizer::Segments {
  SplitStep::Behavior behavior;
  bool invert;
  std::string_view text;
  const PieceSink& next;

  std::size_t begin = 0, end = 0;  // the segment that waits, empty if none
  bool waiting_match = false;
  bool last_match = false;  // of the segment before the one being added

  void emit(std::size_t from, std::size_t to) const {
    if (from < to) next(text.substr(from, to - from));
  }
  void flush() {
    emit(begin, end);
    begin = end = 0;
  }
  void add(std::size_t from, std::size_t to, bool match) {
    if (from == to) return;
    match = match != invert;
    switch (behavior) {
      case SplitStep::Behavior::isolated:
        emit(from, to);
        return;
      case SplitStep::Behavior::removed:
        if (!match) emit(from, to);
        return;
      case SplitStep::Behavior::contiguous:
        if (begin < end && waiting_match == match) {
          end = to;
          return;
        }
        break;
      case SplitStep::Behavior::merged_with_previous:
        if (match && begin < end && !last_match) {
          end = to;
          last_match = true;
          flush();
          return;
        }
        break;
      case SplitStep::Behavior::merged_with_next:
        if (!match && begin < end && waiting_match) {
          end = to;
          flush();
          return;
        }
    }
    flush();
    begin = from;
    end = to;
    waiting_match = last_match = match;
  }
};

void PreTokenizer::run(std::size_t step, std::string_view piece, PatternScratch* scratch, Work& work, PieceSink sink) const {
  if (step == steps_.size()) return sink(piece);
  const Step& s = steps_[step];
  const auto forward = [&](std::string_view part) { run(step + 1, part, scratch, work, sink); };
  const PieceSink next(forward);
  Segments segments{s.behavior, s.invert, piece, next};
  std::size_t gap = 0;
  if (s.matcher != nullptr) {
    const char* const begin = piece.data();
    const char* const end = begin + piece.size();
    work.scanned += piece.size();
    for (const char* p = begin; p < end;) {
      const char* const q = s.matcher(p, end);
      if (q == p) {
        p += utf8_length(*p);
        continue;
      }
      segments.add(gap, static_cast<std::size_t>(p - begin), false);
      segments.add(static_cast<std::size_t>(p - begin), static_cast<std::size_t>(q - begin), true);
      gap = static_cast<std::size_t>(q - begin);
      p = q;
    }
  } else if (s.pattern) {
    for (std::size_t from = 0, begin = 0, end = 0;
         from <= piece.size() && s.pattern->search(piece, from, *scratch, begin, end);) {
      segments.add(gap, begin, false);
      segments.add(begin, end, true);
      gap = end;
      from = end;
      if (begin == end) from += end < piece.size() ? utf8_length(piece[end]) : 1;  // an empty match cuts, and the search goes on
    }
  } else {
    for (std::size_t at; (at = piece.find(s.literal, gap)) != std::string_view::npos; gap = at + s.literal.size()) {
      segments.add(gap, at, false);
      segments.add(at, at + s.literal.size(), true);
    }
  }
  segments.add(gap, piece.size(), false);
  segments.flush();
}

void PreTokenizer::split(std::string_view text, PatternScratch* scratch, Work& work, PieceSink sink) const {
  if (steps_.empty()) {
    if (!text.empty()) sink(text);
    return;
  }
  for (std::size_t from = 0; from < text.size();) {
    bool valid = false;
    const std::size_t to = utf8_run(text, from, valid);
    const std::string_view part = text.substr(from, to - from);
    if (valid)
      run(0, part, scratch, work, sink);
    else
      sink(part);
    from = to;
  }
}

}  // namespace dsv31::inline v1::text
