#include "dsv31/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/text/tokenizer_impl.h"
#include "lib/text/utf8.h"

namespace dsv31::inline v1 {

Tokenizer::Impl::Impl(text::VocabData data, text::PreTokenizerOptions options)
    : vocab(std::move(data)), lexicon(vocab), specials(vocab), normalizer(vocab.normalizer), splits(vocab.splits, options) {
  if (vocab.model == text::TokenModel::word_piece)
    words.emplace(vocab);
  else
    pairs.emplace(vocab, lexicon);
}

Tokenizer text::make_tokenizer(VocabData data, PreTokenizerOptions options) {
  return Tokenizer(std::make_shared<const Tokenizer::Impl>(std::move(data), options));
}

void Tokenizer::Impl::check(Token id) const {
  if (!vocab.in_range(id))
    throw Error(Code::argument, "tokenizer", fmt::format("token id: got {}, expected 0 to {}", id, vocab.size() - 1));
}

std::string Tokenizer::decode(std::span<const Token> ids, bool skip_special) const {
  std::string s;
  for (const Token id : ids) {
    impl_->check(id);
    if (!(skip_special && impl_->skipped(id))) s += impl_->lexicon.piece(id);
  }
  if (impl_->vocab.strip_first_space && !s.empty() && s[0] == ' ') s.erase(0, 1);
  return s;
}

std::string Tokenizer::piece(Token id) const {
  impl_->check(id);
  return std::string(impl_->lexicon.piece(id));
}

std::size_t Tokenizer::vocab_size() const noexcept { return impl_->vocab.size(); }

TokenKind Tokenizer::kind(Token id) const {
  impl_->check(id);
  return impl_->vocab.kinds[static_cast<std::size_t>(id)];
}

Token Tokenizer::find(std::string_view content) const noexcept { return impl_->vocab.find(content); }
Token Tokenizer::bos() const noexcept { return impl_->vocab.bos; }
Token Tokenizer::eos() const noexcept { return impl_->vocab.eos; }
bool Tokenizer::adds_bos() const noexcept { return impl_->vocab.adds_bos && impl_->vocab.bos != kNoToken; }
std::span<const Token> Tokenizer::end_of_generation() const noexcept { return impl_->vocab.end_of_generation; }

bool Tokenizer::is_end_of_generation(Token id) const noexcept {
  const auto& ids = impl_->vocab.end_of_generation;
  return std::binary_search(ids.begin(), ids.end(), id);
}

StreamDecoder::StreamDecoder(Tokenizer tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

std::string StreamDecoder::push(Token id) {
  const Tokenizer::Impl& impl = tokenizer_.impl();
  impl.check(id);
  std::string out;
  if (skip_special_ && impl.skipped(id)) return out;
  std::string_view piece = impl.lexicon.piece(id);
  if (first_ && !piece.empty()) {
    first_ = false;
    if (impl.vocab.strip_first_space && piece[0] == ' ') piece.remove_prefix(1);
  }
  held_ += piece;
  text::utf8_drain(held_, out);
  return out;
}

std::string StreamDecoder::finish() {
  std::string out;
  if (!held_.empty()) out = "\xEF\xBF\xBD";
  held_.clear();
  return out;
}

}  // namespace dsv31::inline v1
