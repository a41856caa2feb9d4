// What encoding and decoding look up by token: the bytes a token stands for, and the token of a byte string that merging may
// make.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/text/vocab_data.h"

namespace dsv31::inline v1::text {

class Lexicon {
 public:
  explicit Lexicon(const VocabData& vocab);

  // What a token writes.
  std::string_view piece(Token id) const noexcept {
    const auto i = static_cast<std::size_t>(id);
    return std::string_view(pieces_).substr(ends_[i], ends_[i + 1] - ends_[i]);
  }
  // The token that plain text `s` may become as a whole. Control tokens, byte tokens and unused ones are never found, nor
  // user-defined ones that look like markup: text cannot forge them.
  Token find(std::string_view s) const noexcept {
    return s.size() > longest_ ? kNoToken : by_key_.find(s, [this](Token id) { return key(id); });
  }
  bool mergeable(Token id) const noexcept { return lengths_[static_cast<std::size_t>(id)] != 0; }
  // Bytes of text that a token covers when it comes from merging; 1 for a byte token; 0 where it cannot.
  std::uint32_t length(Token id) const noexcept { return lengths_[static_cast<std::size_t>(id)]; }
  const std::uint32_t* lengths() const noexcept { return lengths_.data(); }
  Token byte_token(std::uint8_t b) const noexcept { return byte_tokens_[b]; }
  std::size_t longest() const noexcept { return longest_; }

 private:
  std::string_view key(Token id) const noexcept { return key_is_piece_ ? piece(id) : vocab_.text(id); }

  const VocabData& vocab_;
  bool key_is_piece_;
  std::string pieces_;
  std::vector<std::uint32_t> ends_;     // (n_tokens + 1)
  std::vector<std::uint32_t> lengths_;  // (n_tokens)
  std::array<Token, 256> byte_tokens_;
  TokenMap by_key_;
  std::size_t longest_ = 0;  // of all keys
};

}  // namespace dsv31::inline v1::text
