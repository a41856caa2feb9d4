// A sliding window with attention sinks: a token attends to the last `window` tokens and to the first `sinks` of its timeline,
// which keep what a model parks on its first tokens (StreamingLLM, Xiao et al. 2023, arXiv 2309.17453). Unlike there, positions
// stay those of the timeline and nothing leaves the cache: a window bounds what a step reads, not what it stores, and a token
// that is appended without one sees everything again.
#pragma once

#include <cstdint>

namespace dsv31::inline v1 {

struct AttentionWindow {
  std::int64_t window = 0;  // tokens, the token itself included; 0: all, sinks then 0 too
  std::int64_t sinks = 0;   // tokens at the start of the timeline that every token sees besides

  friend constexpr bool operator==(const AttentionWindow&, const AttentionWindow&) = default;

  // Whether a token at `position` attends to the one at `key`.
  constexpr bool sees(std::int64_t position, std::int64_t key) const {
    return key <= position && (window == 0 || key < sinks || key > position - window);
  }
  // The first position that does not see everything before it: tokens before it are as without a window, bit for bit.
  constexpr std::int64_t hides_from() const { return window > 0 ? window + sinks : INT64_MAX; }
};

}  // namespace dsv31::inline v1
