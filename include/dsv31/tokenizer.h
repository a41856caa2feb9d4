// Text to token ids and back. A Tokenizer is immutable and shared: every member may be called from any thread.
//
// Text is bytes: encode accepts any bytes, valid UTF-8 or not, and decode gives them back. Cost is O(n log n) in the length of
// the text, on a stack of 64 KiB, whatever the text holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsv31/error.h"
#include "dsv31/export.h"
#include "dsv31/runtime.h"

namespace dsv31::inline v1 {

using Token = std::int32_t;
inline constexpr Token kNoToken = -1;

// Which special tokens the text may turn into. User text is encoded with user_defined or none, so that it can never forge a
// control token.
enum class Special {
  none,          // every byte is plain text
  user_defined,  // tokens marked user-defined match (<think> of DeepSeek), control tokens do not
  all,           // control tokens match too
};

// Text whose bytes know where they come from: a rendered chat prompt. `trusted` lists disjoint ascending byte ranges that came
// from the template (or from messages that the caller marked as trusted); a special token matches only where all of its bytes are
// trusted.
struct PromptText {
  struct Range {
    std::size_t begin = 0, end = 0;
  };
  std::string text;
  std::vector<Range> trusted;
};

enum class TokenKind : std::uint8_t { normal, unknown, control, user_defined, unused, byte };

class StreamDecoder;

class DSV31_API Tokenizer {
 public:
  // Reads tokenizer.json, or the vocabulary of a GGUF file (a GGUF without tensors serves). Throws format, unsupported, limit.
  static Tokenizer open(const std::string& path);
  static Tokenizer open(std::shared_ptr<const Reader> file);

  struct EncodeOptions {
    Special special = Special::user_defined;
    bool bos = false;  // put the beginning-of-sequence token first, where the vocabulary has one
    bool eos = false;
  };
  std::vector<Token> encode(std::string_view text, EncodeOptions options) const;
  std::vector<Token> encode(std::string_view text) const { return encode(text, EncodeOptions{}); }
  // A rendered prompt: control tokens match in trusted bytes only. Nothing is added at either end.
  std::vector<Token> encode(const PromptText& prompt) const;

  // The bytes of the tokens, special tokens included unless skip_special. Throws argument for an id outside the vocabulary.
  std::string decode(std::span<const Token> ids, bool skip_special = false) const;
  // The bytes that one token adds in the middle of a text.
  std::string piece(Token id) const;

  std::size_t vocab_size() const noexcept;
  TokenKind kind(Token id) const;
  // The token with exactly this content, kNoToken if there is none.
  Token find(std::string_view content) const noexcept;
  Token bos() const noexcept;
  Token eos() const noexcept;
  bool adds_bos() const noexcept;                             // what the model expects before raw text
  std::span<const Token> end_of_generation() const noexcept;  // generation stops at any of these; ascending
  bool is_end_of_generation(Token id) const noexcept;

  struct Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}
  const Impl& impl() const noexcept { return *impl_; }

 private:
  friend class StreamDecoder;
  std::shared_ptr<const Impl> impl_;
};

// Tokens in, text out, never half a character: bytes of an incomplete UTF-8 sequence are held back until it is complete or
// broken. One per stream; not thread-safe.
class DSV31_API StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, bool skip_special = true);
  // The text that `id` completes; may be empty. Bytes that can belong to no character come out as U+FFFD.
  std::string push(Token id);
  // What is still held back, as U+FFFD.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  bool first_ = true;
  std::string held_;
};

}  // namespace dsv31::inline v1
