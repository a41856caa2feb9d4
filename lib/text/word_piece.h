// WordPiece: a word is the longest token that starts it, then the longest that goes on, and so forth; a word that cannot be
// covered is the unknown token as a whole.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/text/vocab_data.h"

namespace dsv31::inline v1::text {

class WordPiece {
 public:
  explicit WordPiece(const VocabData& vocab);
  void encode(std::string_view word, std::vector<Token>& out) const;

 private:
  const VocabData& vocab_;
  std::size_t longest_ = 0;  // bytes of the longest token
};

}  // namespace dsv31::inline v1::text
