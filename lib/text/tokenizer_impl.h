// A tokenizer put together: vocabulary, normalizer, pre-tokenizer, encoder. Immutable but for the flags that PairEncoder finds
// out.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dsv31/tokenizer.h"
#include "lib/text/lexicon.h"
#include "lib/text/merge_engine.h"
#include "lib/text/normalizer.h"
#include "lib/text/pair_encoder.h"
#include "lib/text/pretokenizer.h"
#include "lib/text/special_matcher.h"
#include "lib/text/vocab_data.h"
#include "lib/text/word_piece.h"

namespace dsv31::inline v1 {

struct Tokenizer::Impl {
  explicit Impl(text::VocabData data, text::PreTokenizerOptions options = {});
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const text::VocabData vocab;
  const text::Lexicon lexicon;
  const text::SpecialMatcher specials;
  const text::Normalizer normalizer;
  const text::PreTokenizer splits;
  std::optional<text::PairEncoder> pairs;  // all models but word_piece
  std::optional<text::WordPiece> words;    // word_piece

  // Throws argument for an id outside the vocabulary.
  void check(Token id) const;
  std::vector<Token> encode(std::string_view text, const EncodeOptions& options, text::Work& work) const;
  std::vector<Token> encode(const PromptText& prompt, text::Work& work) const;
  bool skipped(Token id) const noexcept {
    const TokenKind k = vocab.kinds[static_cast<std::size_t>(id)];
    return k == TokenKind::control || k == TokenKind::unknown;
  }
};

namespace text {
// The texts of one call are shorter than this.
inline constexpr std::size_t kMaxTextBytes = 0x7FFFFFFF;

Tokenizer make_tokenizer(VocabData data, PreTokenizerOptions options = {});
}  // namespace text

}  // namespace dsv31::inline v1
