#include "lib/text/word_piece.h"

#include <algorithm>

#include "lib/text/utf8.h"

namespace dsv31::inline v1::text {

WordPiece::WordPiece(const VocabData& vocab) : vocab_(vocab) {
  for (std::size_t i = 0; i < vocab.size(); ++i) longest_ = std::max(longest_, vocab.text(static_cast<Token>(i)).size());
}

void WordPiece::encode(std::string_view word, std::vector<Token>& out) const {
  const std::size_t before = out.size();
  const auto give_up = [&] {
    out.resize(before);
    if (vocab_.unknown != kNoToken) out.push_back(vocab_.unknown);
  };
  if (vocab_.max_word_characters > 0) {
    const auto characters = static_cast<std::size_t>(
        std::count_if(word.begin(), word.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
    if (characters > vocab_.max_word_characters) return give_up();
  }
  std::string candidate;
  for (std::size_t at = 0; at < word.size();) {
    candidate.clear();
    if (vocab_.word_start_mark) {
      if (at == 0) candidate += kSpaceMark;
    } else if (at > 0) {
      candidate += vocab_.continuation;
    }
    const std::size_t mark = candidate.size();
    std::size_t n = std::min(word.size() - at, longest_);
    candidate.append(word, at, n);
    Token id = kNoToken;
    for (; n > 0; --n) {
      const bool whole = at + n == word.size() || (static_cast<unsigned char>(word[at + n]) & 0xC0) != 0x80;
      if (!whole) continue;
      id = vocab_.find(std::string_view(candidate).substr(0, mark + n));
      if (id != kNoToken && vocab_.kinds[static_cast<std::size_t>(id)] == TokenKind::normal) break;
    }
    if (n == 0) return give_up();
    out.push_back(id);
    at += n;
  }
}

}  // namespace dsv31::inline v1::text
