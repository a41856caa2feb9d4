#include "lib/text/gguf_vocab.h"

#include <fmt/format.h>

#include "lib/io/bytes.h"
#include "lib/text/presets.h"

namespace dsv31::inline v1::text {

namespace {

constexpr std::string_view kWhere = "gguf";

[[noreturn]] void fail(Code code, std::string_view key, std::string_view rest) {
  throw Error(code, kWhere, fmt::format("tokenizer.ggml.{}: {}", key, rest));
}

std::string name(std::string_view key) { return fmt::format("tokenizer.ggml.{}", key); }

TokenKind kind_of(std::int64_t type, std::size_t id) {
  switch (type) {
    case 0:
      return TokenKind::unused;
    case 1:
      return TokenKind::normal;
    case 2:
      return TokenKind::unknown;
    case 3:
      return TokenKind::control;
    case 4:
      return TokenKind::user_defined;
    case 5:
      return TokenKind::unused;
    case 6:
      return TokenKind::byte;
    default:
      fail(Code::format, "token_type", fmt::format("got {} for token {}, expected 0 to 6", type, id));
  }
}

class Loader {
 public:
  explicit Loader(const io::Metadata& m) : m_(m) {}

  VocabData run() {
    const std::string_view model = m_.string_or(name("model"), "no_vocab");
    if (model == "no_vocab" || model == "none" || model.empty())
      fail(Code::not_found, "model", "got no vocabulary, expected one");
    if (model == "gpt2")
      v_.model = TokenModel::byte_level;
    else if (model == "llama")
      v_.model = TokenModel::sentencepiece;
    else if (model == "bert")
      v_.model = TokenModel::word_piece;
    else if (model == "gemma4")
      v_.model = TokenModel::characters;
    else
      fail(Code::unsupported, "model", fmt::format("got {}, expected gpt2, llama, bert or gemma4", io::quoted(model)));
    tokens();
    if (v_.model == TokenModel::byte_level || v_.model == TokenModel::characters) merges();
    switch (v_.model) {
      case TokenModel::byte_level:
        byte_level();
        break;
      case TokenModel::characters:
        characters();
        break;
      case TokenModel::sentencepiece:
        sentencepiece();
        break;
      case TokenModel::word_piece:
        word_piece();
        break;
    }
    v_.adds_bos = m_.boolean_or(name("add_bos_token"), v_.adds_bos);
    v_.adds_eos = m_.boolean_or(name("add_eos_token"), v_.adds_eos);
    for (const std::string_view key :
         {"eot_token_id", "eom_token_id", "fim_pad_token_id", "fim_rep_token_id", "fim_sep_token_id"})
      if (const Token id = special(key, kNoToken); id != kNoToken) v_.end_of_generation.push_back(id);
    phi3();
    v_.chat_template = m_.string_or("tokenizer.chat_template", "");
    v_.finish(kWhere);
    return std::move(v_);
  }

 private:
  Token special(std::string_view key, Token absent) const {
    if (!m_.has(name(key))) return v_.in_range(absent) ? absent : kNoToken;
    const std::int64_t id = m_.integer(name(key));
    if (id == -1 || id == UINT32_MAX) return kNoToken;
    if (!v_.in_range(id)) fail(Code::mismatch, key, fmt::format("got {}, expected 0 to {}", id, v_.size() - 1));
    return static_cast<Token>(id);
  }

  void expect_count(std::string_view key, std::size_t count) const {
    if (count != v_.size()) fail(Code::format, key, fmt::format("got {} elements, expected {}, one a token", count, v_.size()));
  }

  void tokens() {
    const io::StringArray texts = m_.strings(name("tokens"));
    std::vector<std::int64_t> types;
    if (m_.has(name("token_type"))) types = m_.integers(name("token_type"));
    if (texts.size() > kMaxTokens)
      fail(Code::limit, "tokens", fmt::format("got {}, expected at most {}", texts.size(), kMaxTokens));
    v_.by_text.reserve(texts.size());
    v_.ends.reserve(texts.size() + 1);
    if (!types.empty() && types.size() != texts.size())
      fail(Code::format, "token_type", fmt::format("got {} elements, expected {}, one a token", types.size(), texts.size()));
    for (std::size_t i = 0; i < texts.size(); ++i)
      v_.add(texts[i], types.empty() ? TokenKind::normal : kind_of(types[i], i), kWhere);
    if (v_.size() == 0) fail(Code::format, "tokens", "got none, expected at least one");
  }

  void merges() {
    const io::StringArray texts = m_.strings(name("merges"));
    if (texts.size() > kMaxMerges)
      fail(Code::limit, "merges", fmt::format("got {}, expected at most {}", texts.size(), kMaxMerges));
    v_.merges.reserve(texts.size());
    std::string both;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::string_view s = texts[i];
      const std::size_t at = s.find(' ', 1);
      if (at == std::string_view::npos || at + 1 == s.size())
        fail(Code::format, "merges", fmt::format("merge {}: got one text, expected two with a space between", i));
      both.assign(s, 0, at);
      const Token left = v_.find(both);
      const Token right = v_.find(s.substr(at + 1));
      both += s.substr(at + 1);
      const Token merged = v_.find(both);
      if (left == kNoToken || right == kNoToken || merged == kNoToken)
        fail(Code::format, "merges", fmt::format("merge {}: got a text that is no token, expected tokens", i));
      v_.merges.push_back({left, right, merged});
    }
  }

  void byte_level() {
    const std::string_view pre = m_.string_or(name("pre"), "");
    if (pre.empty())
      v_.warnings.push_back("tokenizer.ggml.pre: got none, using 'default'; text may be cut in other places than in training");
    const Preset* preset = find_preset(pre.empty() ? "default" : pre);
    if (preset == nullptr) fail(Code::unsupported, "pre", fmt::format("got {}, expected a known pre-tokenizer", io::quoted(pre)));
    for (const std::string_view p : preset->patterns)
      v_.splits.push_back({SplitStep::Kind::pattern, std::string(p), SplitStep::Behavior::isolated, false});
    v_.ignore_merges = preset->ignore_merges;
    v_.adds_bos = preset->adds_bos;
    v_.bos = special("bos_token_id", kNoToken);
    v_.eos = special("eos_token_id", kNoToken);
    v_.unknown = special("unknown_token_id", kNoToken);
    // The unknown token of these files is often the end token; it must not stand for a byte.
    if (v_.unknown != kNoToken && v_.kinds[static_cast<std::size_t>(v_.unknown)] != TokenKind::unknown) v_.unknown = kNoToken;
  }

  void characters() {
    v_.splits.push_back({SplitStep::Kind::pattern, "[^\\n]+|[\\n]+", SplitStep::Behavior::isolated, false});
    v_.space_mark = v_.decode_space_mark = true;
    v_.byte_fallback = true;
    v_.adds_bos = true;
    v_.bos = special("bos_token_id", kNoToken);
    v_.eos = special("eos_token_id", kNoToken);
    v_.unknown = special("unknown_token_id", kNoToken);
    const bool prefix = m_.boolean_or(name("add_space_prefix"), false);
    v_.space_prefix = prefix ? SpacePrefix::every : SpacePrefix::never;
    v_.strip_first_space = prefix;
  }

  void sentencepiece() {
    v_.scores = m_.floats(name("scores"));
    expect_count("scores", v_.scores.size());
    v_.space_mark = v_.decode_space_mark = true;
    v_.byte_fallback = true;
    v_.adds_bos = true;
    v_.bos = special("bos_token_id", 1);
    v_.eos = special("eos_token_id", 2);
    v_.unknown = special("unknown_token_id", 0);
    const bool prefix = m_.boolean_or(name("add_space_prefix"), true);
    v_.space_prefix = prefix ? SpacePrefix::every : SpacePrefix::never;
    v_.strip_first_space = prefix;
  }

  void word_piece() {
    using Kind = NormalizerStep::Kind;
    const bool lower = m_.boolean_or("tokenizer.ggml.normalizer.lowercase", true);
    const bool strip = m_.boolean_or("tokenizer.ggml.normalizer.strip_accents", lower);
    v_.normalizer = {{Kind::bert_clean}, {Kind::bert_cjk}};
    if (strip) v_.normalizer.insert(v_.normalizer.end(), {{Kind::nfd}, {Kind::strip_accents}});
    if (lower) v_.normalizer.push_back({Kind::lowercase});
    v_.splits = {{SplitStep::Kind::white_space, "", SplitStep::Behavior::removed, false},
                 {SplitStep::Kind::punctuation, "", SplitStep::Behavior::isolated, false}};
    v_.word_start_mark = v_.decode_space_mark = v_.strip_first_space = true;
    v_.adds_bos = v_.adds_eos = true;
    v_.bos = special("cls_token_id", special("bos_token_id", v_.find("[CLS]")));
    v_.eos = special("seperator_token_id", special("eos_token_id", v_.find("[SEP]")));
    v_.unknown = special("unknown_token_id", v_.find("[UNK]"));
  }

  // The files of this family do not say that their special tokens swallow the white space behind them.
  void phi3() {
    std::string model_name(m_.string_or("general.name", ""));
    for (char& c : model_name)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    if (model_name.find("phi-3") == std::string::npos && model_name.find("phi3") == std::string::npos) return;
    for (std::size_t i = 0; i < v_.size(); ++i) {
      const auto id = static_cast<Token>(i);
      const TokenKind k = v_.kinds[i];
      if (k != TokenKind::control && k != TokenKind::user_defined && k != TokenKind::unknown) continue;
      const std::string_view s = v_.text(id);
      v_.specials.push_back({id, false, s != "<unk>" && s != "<s>" && s != "<|endoftext|>", false});
    }
  }

  const io::Metadata& m_;
  VocabData v_;
};

}  // namespace

VocabData load_gguf_vocab(const io::Metadata& metadata) { return Loader(metadata).run(); }

}  // namespace dsv31::inline v1::text
