// Cuts text into the pieces that merging may not cross. A pre-tokenizer is a list of steps; each cuts every piece of the step
// before into matches and gaps, so a look-ahead sees the end of its piece, not what follows it. Pieces are handed on as they are
// found: no list of them exists, whatever the length of the text.
//
// Bytes that are no UTF-8 take no part: a maximal run of them is one piece, and the text on both sides is cut as though it stood
// alone.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lib/text/merge_engine.h"
#include "lib/text/pattern.h"
#include "lib/text/scanners.h"
#include "lib/text/vocab_data.h"

namespace dsv31::inline v1::text {

inline constexpr std::size_t kMaxSplitSteps = 16;

// Where pieces go; a reference to the caller's function, which must outlive it.
class PieceSink {
 public:
  template <class Fn>
  PieceSink(const Fn& fn)  // NOLINT: conversion is the point
      : object_(&fn), call_([](const void* o, std::string_view piece) { (*static_cast<const Fn*>(o))(piece); }) {}
  void operator()(std::string_view piece) const { call_(object_, piece); }

 private:
  const void* object_;
  void (*call_)(const void*, std::string_view);
};

struct PreTokenizerOptions {
  bool scanners = true;  // hand-written matchers where there are some
  bool jit = true;
};

class PreTokenizer {
 public:
  explicit PreTokenizer(const std::vector<SplitStep>& steps, PreTokenizerOptions options = {});

  // Scratch for split(): made once a call of encode, null where no step is a pattern of PCRE2.
  std::unique_ptr<PatternScratch> make_scratch(std::size_t text_bytes) const;
  void split(std::string_view text, PatternScratch* scratch, Work& work, PieceSink sink) const;

 private:
  struct Step {
    SplitStep::Kind kind;
    SplitStep::Behavior behavior;
    bool invert;
    std::string literal;
    Matcher matcher = nullptr;
    std::unique_ptr<Pattern> pattern;
  };
  struct Segments;

  void run(std::size_t step, std::string_view piece, PatternScratch* scratch, Work& work, PieceSink sink) const;

  std::vector<Step> steps_;
};

}  // namespace dsv31::inline v1::text
