// Pieces of text to tokens by merging pairs: byte-level BPE, BPE over characters, and SentencePiece's BPE by scores.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "lib/text/lexicon.h"
#include "lib/text/merge_engine.h"
#include "lib/text/merge_table.h"
#include "lib/text/vocab_data.h"

namespace dsv31::inline v1::text {

class PairEncoder {
 public:
  // Throws format for a score that is NaN.
  PairEncoder(const VocabData& vocab, const Lexicon& lexicon);

  // Appends the tokens of one piece. Text is any bytes; those that have no token become the unknown token, or nothing where the
  // vocabulary has none.
  void encode(std::string_view piece, MergeScratch& scratch, Work& work, std::vector<Token>& out) const;

  // The definition of merging, quadratic: what tests hold encode() against.
  void encode_naive(std::string_view piece, std::vector<Token>& out) const;

 private:
  struct TablePairs;
  struct TextPairs;

  void rank_scores();
  void encode_part(std::string_view part, MergeScratch& scratch, Work& work, std::vector<Token>& out) const;
  template <class Pairs>
  void encode_short(const Pairs& pairs, std::string_view part, Work& work, std::vector<Token>& out) const;
  std::size_t load_symbols(std::string_view piece, std::uint32_t* slots) const;  // returns how many
  void unload(std::string_view piece, const std::uint32_t* slots, std::vector<Token>& out) const;
  void append_unknown(std::string_view bytes, bool& after_unknown, std::vector<Token>& out) const;

  const VocabData& vocab_;
  const Lexicon& lexicon_;
  MergeTable table_;
  std::vector<std::uint32_t> ranks_;  // (n_tokens), sentencepiece: equal for equal scores, lower merges first

  // A text over characters may be as long as the input. No merge reaches over a space behind byte b unless a token has b and a
  // space in it, so that the text may be cut there: words are merged on their own.
  bool cuts_at_spaces_ = false;
  std::array<bool, 256> joins_space_{};

  // Whether merging the text of a token gives that token. Found out when first needed; any thread finds the same.
  enum : std::uint8_t { kAsk = 0, kYes = 1, kNo = 2 };
  std::unique_ptr<std::atomic<std::uint8_t>[]> whole_;  // (n_tokens)
};

}  // namespace dsv31::inline v1::text
