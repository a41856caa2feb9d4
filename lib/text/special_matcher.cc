#include "lib/text/special_matcher.h"

#include <algorithm>

#include "lib/text/unicode.h"

namespace dsv31::inline v1::text {

namespace {

// Start of the character that ends at `at`, at itself where the bytes before it are no valid character.
std::size_t character_before(std::string_view text, std::size_t at) noexcept {
  for (std::size_t n = 1; n <= 4 && n <= at; ++n) {
    const char* p = text.data() + at - n;
    if (utf8_valid_length(p, text.data() + at) == n) return at - n;
  }
  return at;
}

bool has_class(std::string_view text, std::size_t at, std::uint8_t bits) noexcept {
  return utf8_valid_length(text.data() + at, text.data() + text.size()) != 0 && (classify(text.data() + at).bits & bits) != 0;
}

bool word_at(std::string_view text, std::size_t at) noexcept {
  return at < text.size() && (text[at] == '_' || has_class(text, at, kLetter | kNumber | kMark));
}

}  // namespace

SpecialMatcher::SpecialMatcher(const VocabData& vocab) {
  for (const SpecialToken& s : vocab.specials)
    specials_.push_back({s, vocab.kinds[static_cast<std::size_t>(s.id)] == TokenKind::user_defined});
  std::sort(specials_.begin(), specials_.end(),
            [&](const Entry& a, const Entry& b) { return vocab.text(a.token.id) < vocab.text(b.token.id); });

  // Breadth first: a node is a range of the sorted texts that agree up to `depth`.
  struct Range {
    std::uint32_t node;
    std::size_t begin, end, depth;
  };
  nodes_.emplace_back();
  std::vector<Range> ranges{{0, 0, specials_.size(), 0}};
  for (std::size_t r = 0; r < ranges.size(); ++r) {
    Range range = ranges[r];
    const auto text = [&](std::size_t i) { return vocab.text(specials_[i].token.id); };
    if (range.begin < range.end && text(range.begin).size() == range.depth)
      nodes_[range.node].special = static_cast<std::int32_t>(range.begin++);
    nodes_[range.node].first_edge = static_cast<std::uint32_t>(edges_.size());
    for (std::size_t i = range.begin; i < range.end;) {
      const auto byte = static_cast<unsigned char>(text(i)[range.depth]);
      std::size_t j = i;
      while (j < range.end && static_cast<unsigned char>(text(j)[range.depth]) == byte) ++j;
      const auto node = static_cast<std::uint32_t>(nodes_.size());
      nodes_.emplace_back();
      edges_.push_back({byte, node});
      ranges.push_back({node, i, j, range.depth + 1});
      i = j;
    }
    nodes_[range.node].edges = static_cast<std::uint32_t>(edges_.size()) - nodes_[range.node].first_edge;
  }
  for (std::uint32_t e = 0; e < nodes_[0].edges; ++e) start_[edges_[e].byte] = edges_[e].node;
}

bool SpecialMatcher::next(std::string_view text, std::size_t from, std::size_t limit, bool control, Match& match) const noexcept {
  for (std::size_t at = from; at < limit; ++at) {
    std::uint32_t node = start_[static_cast<unsigned char>(text[at])];
    if (node == 0) continue;
    const Entry* best = nullptr;
    std::size_t best_end = at;
    for (std::size_t i = at + 1;; ++i) {
      const Node& n = nodes_[node];
      if (n.special >= 0) {
        const Entry& e = specials_[static_cast<std::size_t>(n.special)];
        if ((control || e.user_defined) &&
            !(e.token.single_word && (word_at(text, i) || (at > 0 && word_at(text, character_before(text, at)))))) {
          best = &e;
          best_end = i;
        }
      }
      if (i == limit) break;
      const auto byte = static_cast<unsigned char>(text[i]);
      const Edge* const begin = edges_.data() + n.first_edge;
      const Edge* const end = begin + n.edges;
      const Edge* const edge = std::lower_bound(begin, end, byte, [](const Edge& e, unsigned char b) { return e.byte < b; });
      if (edge == end || edge->byte != byte) break;
      node = edge->node;
    }
    if (best == nullptr) continue;
    match = {best->token.id, at, best_end};
    if (best->token.left_strip)
      for (std::size_t b; match.begin > from && (b = character_before(text, match.begin)) < match.begin && b >= from &&
                          has_class(text, b, kSpace);)
        match.begin = b;
    if (best->token.right_strip)
      while (match.end < limit && has_class(text, match.end, kSpace)) match.end += utf8_length(text[match.end]);
    match.end = std::min(match.end, limit);
    return true;
  }
  return false;
}

}  // namespace dsv31::inline v1::text
