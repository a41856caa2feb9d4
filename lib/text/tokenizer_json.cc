#include "lib/text/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/io/bytes.h"
#include "lib/text/tokenizer_json_events.h"
#include "lib/text/tokenizer_json_steps.h"

namespace dsv31::inline v1::text {

namespace {

constexpr std::string_view kWhere = "tokenizer.json";

// Texts that a converter marks as control tokens though the file says "special": false: <|...|> and the same with U+FF5C.
bool looks_like_control(std::string_view s) noexcept {
  constexpr std::string_view open = "<\xEF\xBD\x9C", close = "\xEF\xBD\x9C>";
  if (s.size() > 4 && s.starts_with("<|") && s.ends_with("|>")) return true;
  return s.size() > open.size() + close.size() && s.starts_with(open) && s.ends_with(close);
}

constexpr std::string_view kBosTexts[] = {
    "<\xEF\xBD\x9C"
    "begin\xE2\x96\x81"
    "of\xE2\x96\x81"
    "sentence\xEF\xBD\x9C>",
    "<|begin_of_text|>", "<bos>", "<s>", "[CLS]"};
constexpr std::string_view kEosTexts[] = {
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81"
    "of\xE2\x96\x81"
    "sentence\xEF\xBD\x9C>",
    "<|end_of_text|>",
    "<eos>",
    "</s>",
    "<|endoftext|>",
    "[SEP]"};

// The text of a token member that is a string or an object with its content; empty where absent.
std::string_view token_text(const io::Json* member) {
  if (member == nullptr) return {};
  if (member->is_string()) return member->as_string();
  const io::Json* content = member->find("content");
  return content != nullptr && content->is_string() ? std::string_view(content->as_string()) : std::string_view();
}

class Loader {
 public:
  Loader(std::string_view json, const TokenizerConfigs& configs) : raw_(read_tokenizer_json(json)), configs_(configs) {}

  VocabData run() {
    model_type();
    tokens();
    merges();
    TokenizerJsonSteps(raw_.root, v_).read();
    if (v_.model == TokenModel::byte_level) v_.byte_fallback = false;
    ends();
    v_.finish(kWhere);
    return std::move(v_);
  }

 private:
  [[noreturn]] static void fail(Code code, std::string_view what) { throw Error(code, kWhere, what); }

  void model_type() {
    const io::Json& m = raw_.model;
    const std::string type = m.string_or("type", raw_.merges.empty() ? "" : "BPE");
    if (type == "Unigram" || (type.empty() && m.find("unk_id") != nullptr))
      fail(Code::unsupported, "model.type: got Unigram, expected BPE or WordPiece");
    if (!raw_.has_vocab) fail(Code::format, "model.vocab: got none, expected an object");
    if (type == "WordPiece") {
      v_.model = TokenModel::word_piece;
      v_.continuation = m.string_or("continuing_subword_prefix", "##");
      v_.max_word_characters = static_cast<std::size_t>(m.int_or("max_input_chars_per_word", 100, 1, 1 << 20));
    } else if (type == "BPE") {
      v_.model = TokenizerJsonSteps::is_byte_level(raw_.root) ? TokenModel::byte_level : TokenModel::characters;
      for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"})
        if (!m.string_or(key, "").empty()) fail(Code::unsupported, fmt::format("model.{}: got a text, expected none", key));
      if (m.float_or("dropout", 0) != 0) fail(Code::unsupported, "model.dropout: got a number, expected none");
    } else {
      fail(Code::unsupported, fmt::format("model.type: got {}, expected BPE or WordPiece", io::quoted(type)));
    }
    v_.byte_fallback = m.bool_or("byte_fallback", false);
    v_.fuse_unknown = m.bool_or("fuse_unk", false);
    v_.ignore_merges = m.bool_or("ignore_merges", false);
  }

  struct Added {
    std::int64_t id;
    std::string_view content;
    bool special;
    SpecialToken flags;
  };

  std::vector<Added> added_tokens() const {
    std::vector<Added> list;
    const io::Json* array = raw_.root.find("added_tokens");
    if (array == nullptr || array->is_null()) return list;
    if (!array->is_array()) fail(Code::format, fmt::format("added_tokens: got {}, expected an array", array->kind()));
    for (const io::Json& a : array->as_array()) {
      Added t{a.get_int("id"), a.get_string("content"), a.bool_or("special", false), {}};
      t.flags = {kNoToken, a.bool_or("lstrip", false), a.bool_or("rstrip", false), a.bool_or("single_word", false)};
      list.push_back(t);
    }
    return list;
  }

  // Ids count from 0 without a gap, over the vocabulary and the added tokens together.
  void tokens() {
    const std::vector<Added> added = added_tokens();
    constexpr std::uint32_t none = UINT32_MAX;
    std::vector<std::uint32_t> at;  // of id: index in raw_.vocab, or vocab size + index in added
    const auto place = [&](std::int64_t id, std::uint32_t index, std::string_view from) {
      if (id < 0 || static_cast<std::uint64_t>(id) >= kMaxTokens)
        fail(id < 0 ? Code::format : Code::limit, fmt::format("{}: got the id {}, expected 0 to {}", from, id, kMaxTokens - 1));
      const auto i = static_cast<std::size_t>(id);
      if (i >= at.size()) at.resize(std::max(i + 1, std::min(2 * at.size(), kMaxTokens)), none);
      if (at[i] != none) return false;
      at[i] = index;
      return true;
    };
    std::size_t count = 0;
    for (std::size_t i = 0; i < raw_.vocab.size(); ++i) {
      const std::int64_t id = raw_.vocab[i].id;
      if (!place(id, static_cast<std::uint32_t>(i), "model.vocab"))
        fail(Code::format, fmt::format("model.vocab: got the id {} twice, expected it once", id));
      count = std::max(count, static_cast<std::size_t>(id) + 1);
    }
    std::vector<bool> seen;
    for (std::size_t i = 0; i < added.size(); ++i) {
      const Added& a = added[i];
      if (a.content.empty())
        fail(Code::format, fmt::format("added_tokens: token {}: got an empty content, expected a text", a.id));
      if (!place(a.id, static_cast<std::uint32_t>(raw_.vocab.size() + i), "added_tokens")) {
        const std::uint32_t index = at[static_cast<std::size_t>(a.id)];
        if (index >= raw_.vocab.size())
          fail(Code::format, fmt::format("added_tokens: got the id {} twice, expected it once", a.id));
        if (raw_.text(raw_.vocab[index]) != a.content)
          fail(Code::format,
               fmt::format("added_tokens: token {}: got a content that differs from its text in model.vocab, expected the same",
                           a.id));
      }
      const auto id = static_cast<std::size_t>(a.id);
      if (id >= seen.size()) seen.resize(id + 1, false);
      if (seen[id]) fail(Code::format, fmt::format("added_tokens: got the id {} twice, expected it once", a.id));
      seen[id] = true;
      count = std::max(count, id + 1);
    }
    v_.by_text.reserve(count);
    v_.ends.reserve(count + 1);
    v_.kinds.reserve(count);
    for (std::size_t id = 0; id < count; ++id) {
      if (at[id] == none)
        fail(Code::format, fmt::format("model.vocab: got no token {}, expected ids 0 to {} without a gap", id, count - 1));
      const bool base = at[id] < raw_.vocab.size();
      const std::string_view s = base ? raw_.text(raw_.vocab[at[id]]) : added[at[id] - raw_.vocab.size()].content;
      v_.add(s, base ? kind_of(s, id) : TokenKind::user_defined, kWhere);
    }
    for (const Added& a : added) {
      const auto id = static_cast<Token>(a.id);
      TokenKind& kind = v_.kinds[static_cast<std::size_t>(id)];
      if (kind != TokenKind::byte)
        kind = a.special || looks_like_control(a.content) ? TokenKind::control : TokenKind::user_defined;
      if (kind == TokenKind::byte) continue;
      v_.specials.push_back(a.flags);
      v_.specials.back().id = id;
    }
    if (const std::string unknown = raw_.model.string_or("unk_token", ""); !unknown.empty()) {
      v_.unknown = v_.find(unknown);
      if (v_.unknown == kNoToken) fail(Code::format, "model.unk_token: got a text that is no token, expected a token");
      if (unknown == "<unk>" || unknown == "[UNK]") v_.kinds[static_cast<std::size_t>(v_.unknown)] = TokenKind::unknown;
    }
  }

  TokenKind kind_of(std::string_view s, std::size_t id) const {
    if (!v_.byte_fallback || s.size() > 8 || !s.starts_with("<0x") || !s.ends_with(">")) return TokenKind::normal;
    if (!parse_byte_token(s))
      fail(Code::format, fmt::format("token {}: got a malformed byte token, expected <0xXX> with two hexadecimal digits", id));
    return TokenKind::byte;
  }

  void merges() {
    v_.merges.reserve(raw_.merges.size());
    const std::string_view texts = raw_.texts;
    for (std::size_t i = 0; i < raw_.merges.size(); ++i) {
      const RawTokenizerJson::Pair& p = raw_.merges[i];
      const MergeRule r{v_.find(texts.substr(p.begin, p.left)), v_.find(texts.substr(p.begin + p.left, p.right)),
                        v_.find(texts.substr(p.begin, p.left + p.right))};
      if (r.left == kNoToken || r.right == kNoToken || r.merged == kNoToken)
        fail(Code::format, fmt::format("model.merges: merge {}: got a text that is no token, expected tokens", i));
      v_.merges.push_back(r);
    }
  }

  Token find_first(std::span<const std::string_view> texts) const {
    for (const std::string_view s : texts)
      if (const Token id = v_.find(s); id != kNoToken) return id;
    return kNoToken;
  }

  void end_ids(const io::Json* file) {
    const io::Json* ids = file == nullptr ? nullptr : file->find("eos_token_id");
    if (ids == nullptr || ids->is_null()) return;
    const auto add = [&](const io::Json& id) {
      if (!id.is_int())
        throw Error(Code::format, "generation_config.json", fmt::format("eos_token_id: got {}, expected an integer", id.kind()));
      // A padded vocabulary has ids that no token has; such an end can never be written.
      if (v_.in_range(id.as_int())) v_.end_of_generation.push_back(static_cast<Token>(id.as_int()));
    };
    if (!ids->is_array()) return add(*ids);
    for (const io::Json& id : ids->as_array()) add(id);
  }

  // Beginning and end of sequence: what tokenizer_config.json says, then the post-processor, then well-known texts.
  void ends() {
    const io::Json* c = configs_.tokenizer_config;
    if (c != nullptr && c->is_null()) c = nullptr;
    const auto named = [&](std::string_view key, Token otherwise) {
      const std::string_view s = c == nullptr ? std::string_view() : token_text(c->find(key));
      if (s.empty()) return otherwise;
      const Token id = v_.find(s);
      if (id == kNoToken)
        throw Error(Code::mismatch, "tokenizer_config.json",
                    fmt::format("{}: got a text that is no token, expected a token", key));
      return id;
    };
    const bool says_no_bos = c != nullptr && c->has("bos_token") && c->find("bos_token")->is_null();
    v_.bos = named("bos_token", v_.bos != kNoToken || says_no_bos ? v_.bos : find_first(kBosTexts));
    v_.eos = named("eos_token", v_.eos != kNoToken ? v_.eos : find_first(kEosTexts));
    if (v_.model == TokenModel::word_piece) {
      v_.bos = named("cls_token", v_.bos);
      v_.eos = named("sep_token", v_.eos);
    }
    if (c != nullptr) {
      v_.adds_bos = c->bool_or("add_bos_token", v_.adds_bos);
      v_.adds_eos = c->bool_or("add_eos_token", v_.adds_eos);
    }
    end_ids(configs_.generation_config);
    end_ids(configs_.config);
  }

  RawTokenizerJson raw_;
  const TokenizerConfigs& configs_;
  VocabData v_;
};

}  // namespace

VocabData load_tokenizer_json(std::string_view json, const TokenizerConfigs& configs) { return Loader(json, configs).run(); }

}  // namespace dsv31::inline v1::text
