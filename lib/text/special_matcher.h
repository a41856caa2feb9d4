// Finds special tokens in text: the partition that comes before everything else. A trie of their texts, walked from each place
// where one may start; the leftmost match wins, of several there the longest. A walk is as long as the longest special token at
// most, so the cost is linear in the text and does not grow with the number of tokens.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/text/vocab_data.h"

namespace dsv31::inline v1::text {

class SpecialMatcher {
 public:
  explicit SpecialMatcher(const VocabData& vocab);

  struct Match {
    Token id = kNoToken;
    std::size_t begin = 0, end = 0;  // with the white space that the token swallows
  };
  // The first match in text[from, limit). Control and unknown tokens match only where `control`; user-defined ones always. White
  // space is swallowed inside [from, limit) only; whether a token stands as a word is judged by the whole text.
  bool next(std::string_view text, std::size_t from, std::size_t limit, bool control, Match& match) const noexcept;

 private:
  struct Node {
    std::uint32_t first_edge = 0, edges = 0;  // in edges_, by byte
    std::int32_t special = -1;                // in specials_
  };
  struct Edge {
    unsigned char byte = 0;
    std::uint32_t node = 0;
  };
  struct Entry {
    SpecialToken token;
    bool user_defined = false;
  };

  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::vector<Entry> specials_;
  std::array<std::uint32_t, 256> start_{};  // node after one byte, 0 for none
};

}  // namespace dsv31::inline v1::text
