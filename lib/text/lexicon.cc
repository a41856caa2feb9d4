#include "lib/text/lexicon.h"

#include <algorithm>

#include "lib/text/byte_alphabet.h"

namespace dsv31::inline v1::text {

namespace {

void append_unmarked(std::string& to, std::string_view s) {
  for (std::size_t i = 0; i < s.size();) {
    const std::size_t mark = std::min(s.find(kSpaceMark, i), s.size());
    to.append(s, i, mark - i);
    if (mark == s.size()) break;
    to += ' ';
    i = mark + kSpaceMark.size();
  }
}

// User-defined tokens are words and runs of white space, which merging may make too, and markup (<think>, [INST]), which it may
// not.
bool is_markup(std::string_view s) noexcept {
  return s.size() > 1 && ((s.front() == '<' && s.back() == '>') || (s.front() == '[' && s.back() == ']'));
}

// Spelled the same in the byte alphabet.
bool is_printable_ascii(std::string_view s) noexcept {
  return std::all_of(s.begin(), s.end(), [](char c) { return c > 0x20 && c < 0x7F; });
}

}  // namespace

Lexicon::Lexicon(const VocabData& vocab)
    : vocab_(vocab), key_is_piece_(vocab.model == TokenModel::byte_level || vocab.space_mark), lengths_(vocab.size(), 0) {
  byte_tokens_.fill(kNoToken);
  pieces_.reserve(vocab.texts.size());
  ends_.reserve(vocab.size() + 1);
  ends_.push_back(0);
  by_key_.reserve(vocab.size());
  const auto name = [this](Token id) { return key(id); };
  for (std::size_t i = 0; i < vocab.size(); ++i) {
    const auto id = static_cast<Token>(i);
    const std::string_view s = vocab.text(id);
    const TokenKind kind = vocab.kinds[i];
    bool merges = kind == TokenKind::normal;
    if (kind == TokenKind::byte) {
      const std::uint8_t b = parse_byte_token(s).value_or(0);
      pieces_ += static_cast<char>(b);
      byte_tokens_[b] = id;
      lengths_[i] = 1;
    } else if (kind == TokenKind::unused) {
      // writes nothing
    } else if (kind == TokenKind::control || kind == TokenKind::unknown) {
      pieces_ += s;
    } else if (vocab.model == TokenModel::byte_level) {
      if (kind != TokenKind::normal || !read_byte_alphabet(s, pieces_)) {
        pieces_ += s;
        merges = kind != TokenKind::normal && is_printable_ascii(s) && !is_markup(s);
      }
    } else if (vocab.model == TokenModel::word_piece && kind == TokenKind::normal && !vocab.word_start_mark) {
      const bool inside = s.substr(0, vocab.continuation.size()) == vocab.continuation;
      if (!inside) pieces_ += ' ';
      pieces_ += inside ? s.substr(vocab.continuation.size()) : s;
    } else if (vocab.decode_space_mark) {
      append_unmarked(pieces_, s);
      merges = merges || !is_markup(s);
    } else {
      pieces_ += s;
      merges = merges || !is_markup(s);
    }
    ends_.push_back(static_cast<std::uint32_t>(pieces_.size()));
    if (!merges || s.empty()) continue;
    if (vocab.space_mark && s.find(' ') != std::string_view::npos) continue;  // text has no such space where tokens are looked up
    if (by_key_.insert(key(id), id, name) != kNoToken) continue;
    const std::string_view k = key(id);
    lengths_[i] = static_cast<std::uint32_t>(k.size());
    longest_ = std::max(longest_, k.size());
    if (vocab.model == TokenModel::byte_level && k.size() == 1) byte_tokens_[static_cast<unsigned char>(k[0])] = id;
  }
}

}  // namespace dsv31::inline v1::text
