// Tokenizers for tests: the small recorded one, and ones that are put together in memory.
#pragma once

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "dsv31/tokenizer.h"
#include "lib/text/byte_alphabet.h"
#include "lib/text/presets.h"
#include "lib/text/tokenizer_impl.h"
#include "tests/gguf_builder.h"

namespace dsv31::test {

inline std::string read_file(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(f), {}};
}

inline std::string tiny_path() { return std::string(DSV31_TEST_DATA) + "/dsv31-tiny/tokenizer.json"; }
inline const Tokenizer& tiny() {
  static const Tokenizer t = Tokenizer::open(tiny_path());
  return t;
}

// All 256 bytes at ids 0 to 255, then what merging gives, in order of rank; texts are plain bytes.
inline text::VocabData byte_vocab(const std::vector<std::pair<std::string, std::string>>& merges) {
  const auto spell = [](std::string_view s) {
    std::string out;
    for (const char c : s) out += text::spell_byte(static_cast<std::uint8_t>(c));
    return out;
  };
  text::VocabData v;
  v.model = text::TokenModel::byte_level;
  for (int b = 0; b < 256; ++b) v.add(text::spell_byte(static_cast<std::uint8_t>(b)), TokenKind::normal, "test");
  for (const auto& [left, right] : merges) {
    if (v.find(spell(left + right)) == kNoToken) v.add(spell(left + right), TokenKind::normal, "test");
    v.merges.push_back({v.find(spell(left)), v.find(spell(right)), v.find(spell(left + right))});
  }
  return v;
}

inline void add_special(text::VocabData& v, std::string_view s, TokenKind kind) { v.add(s, kind, "test"); }

inline Tokenizer finish(text::VocabData v, text::PreTokenizerOptions options = {}) {
  v.finish("test");
  return text::make_tokenizer(std::move(v), options);
}

inline void set_preset(text::VocabData& v, std::string_view name) {
  for (const std::string_view p : text::find_preset(name)->patterns)
    v.splits.push_back({text::SplitStep::Kind::pattern, std::string(p), text::SplitStep::Behavior::isolated, false});
}

// The pieces that a preset cuts a text into.
inline std::vector<std::string> pieces(std::string_view preset, std::string_view s, text::PreTokenizerOptions options = {}) {
  text::VocabData v;
  set_preset(v, preset);
  const text::PreTokenizer splits(v.splits, options);
  const auto scratch = splits.make_scratch(s.size());
  text::Work work;
  std::vector<std::string> out;
  const auto sink = [&](std::string_view p) { out.emplace_back(p); };
  splits.split(s, scratch.get(), work, sink);
  return out;
}

// A SentencePiece vocabulary as a GGUF file: <unk> <s> </s>, 256 byte tokens, then `tokens` with falling scores.
inline GgufBuilder sentencepiece_gguf(const std::vector<std::string>& tokens) {
  std::vector<std::string> texts = {"<unk>", "<s>", "</s>"};
  std::vector<std::int32_t> types = {2, 3, 3};
  std::vector<float> scores = {0, 0, 0};
  constexpr char hex[] = "0123456789ABCDEF";
  for (int b = 0; b < 256; ++b) {
    texts.push_back(std::string("<0x") + hex[b / 16] + hex[b % 16] + ">");
    types.push_back(6);
    scores.push_back(0);
  }
  for (const std::string& s : tokens) {
    scores.push_back(-static_cast<float>(texts.size()));
    texts.push_back(s);
    types.push_back(1);
  }
  GgufBuilder b;
  b.string("tokenizer.ggml.model", "llama")
      .strings("tokenizer.ggml.tokens", texts)
      .f32s("tokenizer.ggml.scores", scores)
      .i32s("tokenizer.ggml.token_type", types);
  return b;
}

}  // namespace dsv31::test
