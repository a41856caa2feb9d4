// What a tokenizer is made of, whatever file it came from. Two loaders fill it (gguf_vocab.cc, tokenizer_json.cc);
// Tokenizer::Impl is built from it and knows no file format.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsv31/tokenizer.h"
#include "lib/text/token_map.h"

namespace dsv31::inline v1::text {

// Caps of every vocabulary. The largest known ones have 262,144 tokens and 514,906 merges.
inline constexpr std::size_t kMaxTokens = 1u << 21;
inline constexpr std::size_t kMaxMerges = 1u << 22;
inline constexpr std::size_t kMaxTokenBytes = 0xFFFF;       // of any token
inline constexpr std::size_t kMaxSpecialTokenBytes = 1024;  // of one that is looked for in the text; bounds the scan's look-ahead
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, how SentencePiece spells a space

enum class TokenModel {
  byte_level,     // BPE over the bytes of the text; token texts are spelled in the byte alphabet (byte_alphabet.h)
  characters,     // BPE over characters by a list of merges; other characters become byte tokens <0xXX> or the unknown token
  sentencepiece,  // BPE over characters by scores: a pair may merge when its text is a token
  word_piece,     // greedy longest match inside words
};

struct MergeRule {
  Token left = kNoToken, right = kNoToken, merged = kNoToken;
};

// A token that is looked for in the text before anything else.
struct SpecialToken {
  Token id = kNoToken;
  bool left_strip = false, right_strip = false;  // swallows white space at that side
  bool single_word = false;                      // only between non-word characters
};

// One step of a normalizer; texts are UTF-8.
struct NormalizerStep {
  enum class Kind {
    nfc,
    nfd,
    nfkc,
    nfkd,
    lowercase,
    strip_marks,
    strip_accents,
    prepend,
    replace,
    replace_pattern,
    strip,
    bert_clean,
    bert_cjk
  };
  Kind kind = Kind::nfc;
  std::string pattern = {}, text = {};  // replace: pattern by text; prepend: text
  bool left = true, right = true;       // strip
};

// One step of a pre-tokenizer: cuts every piece of the step before into matches and gaps.
struct SplitStep {
  enum class Behavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };
  enum class Kind {
    pattern,      // the matches of a regular expression
    literal,      // the occurrences of a text
    digits,       // characters of \p{N}
    punctuation,  // ASCII punctuation and \p{P}
    white_space,  // White_Space
  };
  Kind kind = Kind::pattern;
  std::string pattern;
  Behavior behavior = Behavior::isolated;
  bool invert = false;  // matches and gaps change places
};

// Where a space is put before a fragment (text between special tokens).
enum class SpacePrefix { never, first, every };

struct VocabData {
  TokenModel model = TokenModel::byte_level;

  // Tokens: text of id i is [ends[i], ends[i + 1]) of texts. Texts are unique but for empty ones, which nothing matches.
  std::string texts;
  std::vector<std::uint32_t> ends{0};  // (n_tokens + 1)
  std::vector<TokenKind> kinds;        // (n_tokens)
  std::vector<float> scores;           // (n_tokens), sentencepiece only
  std::vector<MergeRule> merges;       // by rank
  std::vector<SpecialToken> specials;
  TokenMap by_text;

  std::vector<NormalizerStep> normalizer;
  std::vector<SplitStep> splits;

  bool ignore_merges = false;  // a piece that is a token is that token, whatever the merges say
  bool byte_fallback = false;  // characters without a token become <0xXX>
  bool fuse_unknown = false;   // adjacent unknown characters become one unknown token

  // Spaces are U+2581 in token texts. Encoding works with U+2581 read as a space on both sides, so no text grows.
  bool space_mark = false;
  bool decode_space_mark = false;  // U+2581 of a token is written as a space
  SpacePrefix space_prefix = SpacePrefix::never;
  bool prefix_unless_space = false;  // no space is put before a fragment that starts with one
  bool strip_first_space = false;    // decoding drops one leading space

  bool word_lowercase = false;          // word_piece; the rest of its normalizer is in `normalizer`
  bool word_start_mark = false;         // word_piece: tokens at a word's start carry U+2581, the others nothing (GGUF)
  std::string continuation = "##";      // word_piece without word_start_mark
  std::size_t max_word_characters = 0;  // word_piece; 0: no limit

  Token bos = kNoToken, eos = kNoToken, unknown = kNoToken;
  bool adds_bos = false, adds_eos = false;
  std::vector<Token> end_of_generation;  // by id; those known by text are added by finish()

  std::string chat_template;
  std::vector<std::string> warnings;

  std::size_t size() const noexcept { return kinds.size(); }
  std::string_view text(Token id) const noexcept {
    const auto i = static_cast<std::size_t>(id);
    return std::string_view(texts).substr(ends[i], ends[i + 1] - ends[i]);
  }
  Token find(std::string_view s) const noexcept {
    return by_text.find(s, [this](Token id) { return text(id); });
  }
  bool in_range(std::int64_t id) const noexcept { return id >= 0 && static_cast<std::uint64_t>(id) < size(); }

  // Appends a token; where names the surface of errors ("gguf", "tokenizer.json"): format for a text that is too long, not UTF-8
  // or taken; limit for too many tokens.
  void add(std::string_view s, TokenKind kind, std::string_view where);
  // Called once, when all is read: checks byte tokens and special tokens, adds what is known by text, sorts.
  void finish(std::string_view where);
};

// The byte that "<0xXX>" stands for; nothing unless it is spelled exactly so, with two hexadecimal digits.
std::optional<std::uint8_t> parse_byte_token(std::string_view s) noexcept;

}  // namespace dsv31::inline v1::text
