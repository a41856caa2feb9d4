// Special tokens: which match where, and what loading makes of them.
#include "lib/text/tokenizer_factory.h"
#include "tests/catch.h"
#include "tests/memory_files.h"
#include "tests/text/tokenizer_fixtures.h"

using namespace dsv31;
using namespace dsv31::test;
using Ids = std::vector<Token>;

namespace {

constexpr Token kUser = 1007, kAssistant = 1008, kThink = 1009, kThinkEnd = 1010;

Tokenizer with_specials(const std::vector<std::pair<std::string, TokenKind>>& list,
                        const std::vector<text::SpecialToken>& flags = {}) {
  text::VocabData v = byte_vocab({});
  for (const auto& [s, kind] : list) v.add(s, kind, "test");
  for (text::SpecialToken f : flags) {
    f.id += 256;
    v.specials.push_back(f);
  }
  return finish(std::move(v));
}

Ids bytes(std::string_view s) {
  Ids ids;
  for (const char c : s) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

}  // namespace

TEST_CASE("none matches nothing, user_defined the user-defined tokens, all of them all") {
  const Tokenizer& t = tiny();
  const std::string s = "<｜User｜><think>";
  CHECK(t.encode(s, {.special = Special::all}) == Ids{kUser, kThink});
  const Ids user = t.encode(s, {.special = Special::user_defined});
  CHECK(user.back() == kThink);
  CHECK(std::count(user.begin(), user.end(), kUser) == 0);
  const Ids none = t.encode(s, {.special = Special::none});
  CHECK(std::count(none.begin(), none.end(), kThink) == 0);
  CHECK(std::count(none.begin(), none.end(), kUser) == 0);
  CHECK(t.decode(user) == s);
  CHECK(t.decode(none) == s);
  CHECK(t.encode(s) == user);  // user_defined is the default
}

TEST_CASE("the longest of several special tokens at one place matches") {
  const Tokenizer t =
      with_specials({{"<a>", TokenKind::control}, {"<a>b", TokenKind::control}, {"<a>bcd", TokenKind::user_defined}});
  CHECK(t.encode("<a>bcd<a>bc<a>", {.special = Special::all}) == Ids{258, 257, 'c', 256});
  CHECK(t.encode("<a>bcd<a>b", {.special = Special::user_defined}) == Ids{258, '<', 'a', '>', 'b'});
}

TEST_CASE("special tokens match in trusted bytes only, whatever place a border cuts") {
  const Tokenizer& t = tiny();
  const std::string s = "<｜User｜>hi<｜Assistant｜></think>";
  CHECK(t.encode(PromptText{s, {{0, s.size()}}}) == t.encode(s, {.special = Special::all}));
  CHECK(t.encode(PromptText{s, {}}) == t.encode(s, {.special = Special::none}));
  const std::size_t first = std::string("<｜User｜>").size();
  for (std::size_t cut = 0; cut <= first; ++cut) {
    // The bytes before the cut are data, then the template goes on.
    const Ids ids = t.encode(PromptText{s, {{cut, s.size()}}});
    CHECK(std::count(ids.begin(), ids.end(), kUser) == (cut == 0 ? 1 : 0));
    CHECK(std::count(ids.begin(), ids.end(), kAssistant) == 1);
    CHECK(std::count(ids.begin(), ids.end(), kThinkEnd) == 1);
    CHECK(t.decode(ids) == s);
    // And the other way round.
    const Ids other = t.encode(PromptText{s, {{0, cut}}});
    CHECK(std::count(other.begin(), other.end(), kUser) == (cut == first ? 1 : 0));
    CHECK(std::count(other.begin(), other.end(), kAssistant) == 0);
    CHECK(std::count(other.begin(), other.end(), kThinkEnd) == 0);
    CHECK(t.decode(other) == s);
    // Trusted on both sides of one byte that is not.
    if (cut < first) {
      const Ids hole = t.encode(PromptText{s, {{0, cut}, {cut + 1, s.size()}}});
      CHECK(std::count(hole.begin(), hole.end(), kUser) == 0);
    }
    // Two trusted ranges that touch are one.
    CHECK(t.encode(PromptText{s, {{0, cut}, {cut, s.size()}}}) == t.encode(s, {.special = Special::all}));
  }
}

TEST_CASE("every special token, split at every place between template and data, matches nowhere") {
  const Tokenizer& t = tiny();
  for (Token id = 0; static_cast<std::size_t>(id) < t.vocab_size(); ++id) {
    if (t.kind(id) != TokenKind::control && t.kind(id) != TokenKind::user_defined) continue;
    const std::string s = t.piece(id);
    REQUIRE(t.encode(PromptText{s, {{0, s.size()}}}) == Ids{id});
    for (std::size_t cut = 1; cut < s.size(); ++cut)
      for (const PromptText::Range r : {PromptText::Range{0, cut}, PromptText::Range{cut, s.size()}})
        for (const Token got : t.encode(PromptText{s, {r}})) REQUIRE(t.kind(got) == TokenKind::normal);
  }
}

TEST_CASE("between specials a prompt is cut as one text, across the borders of its ranges") {
  const Tokenizer& t = tiny();
  const std::string s = "<｜User｜>The sum of 123 and 45";
  for (std::size_t cut = 0; cut <= s.size(); ++cut)
    if (cut == 0 || cut >= std::string("<｜User｜>").size()) {
      const Ids ids = t.encode(PromptText{s, {{0, cut == 0 ? s.size() : cut}}});
      CHECK(ids == t.encode(s, {.special = Special::all}));
    }
}

TEST_CASE("merging never makes a control token out of text") {
  text::VocabData v = byte_vocab({{"<", "s"}, {"<s", ">"}});
  v.kinds[static_cast<std::size_t>(v.find("<s>"))] = TokenKind::control;
  const Tokenizer t = finish(std::move(v));
  CHECK(t.encode("<s>", {.special = Special::none}) == Ids{256, '>'});
  const std::string file = sentencepiece_gguf({"<", "s", ">", "<s"}).build();
  const Tokenizer p = Tokenizer::open(memory_reader(file.data(), file.size()));
  for (const Token id : p.encode("<s></s>", {.special = Special::none})) CHECK(p.kind(id) != TokenKind::control);
}

TEST_CASE("lstrip and rstrip swallow white space, single_word wants borders") {
  const Tokenizer t = with_specials({{"<m>", TokenKind::control}, {"cat", TokenKind::user_defined}},
                                    {{0, true, true, false}, {1, false, false, true}});
  CHECK(t.encode("a \n\u00A0<m>\t b", {.special = Special::all}) == Ids{'a', 256, 'b'});
  CHECK(t.encode("cat a cat, cats bobcat") == [] {
    Ids ids = {257};
    for (const Token id : bytes(" a ")) ids.push_back(id);
    ids.push_back(257);
    for (const Token id : bytes(", cats bobcat")) ids.push_back(id);
    return ids;
  }());
  // Only trusted white space is swallowed.
  CHECK(t.encode(PromptText{" <m> ", {{1, 4}}}) == Ids{' ', 256, ' '});
}

TEST_CASE("beginning and end of sequence are added on request, the beginning never twice") {
  const Tokenizer& t = tiny();
  CHECK(t.bos() == 0);
  CHECK(t.eos() == 1);
  CHECK(t.encode("", {.bos = true, .eos = true}) == Ids{0, 1});
  const Ids hi = t.encode("hi");
  CHECK(t.encode("hi", {.bos = true}).front() == 0);
  CHECK(t.encode("hi", {.bos = true}).size() == hi.size() + 1);
  const std::string with = "<｜begin▁of▁sentence｜>hi";
  CHECK(t.encode(with, {.special = Special::all, .bos = true}) == t.encode("hi", {.bos = true}));
  // As plain text the marker is no second one.
  CHECK(t.encode(with, {.special = Special::none, .bos = true}).size() > hi.size() + 1);
}

TEST_CASE("generation ends at eos, at the ids the files name, and at well-known texts") {
  CHECK(std::vector<Token>(tiny().end_of_generation().begin(), tiny().end_of_generation().end()) == Ids{1});
  const Tokenizer t = with_specials(
      {{"<|im_end|>", TokenKind::user_defined}, {"<|endoftext|>", TokenKind::control}, {"<|x|>", TokenKind::control}});
  CHECK(std::vector<Token>(t.end_of_generation().begin(), t.end_of_generation().end()) == Ids{256, 257});
  CHECK(t.kind(256) == TokenKind::control);
  CHECK(t.is_end_of_generation(257));
  CHECK(!t.is_end_of_generation(258));
  const Tokenizer harmony =
      with_specials({{"<|end|>", TokenKind::control}, {"<|return|>", TokenKind::control}, {"<|call|>", TokenKind::control}});
  CHECK(std::vector<Token>(harmony.end_of_generation().begin(), harmony.end_of_generation().end()) == Ids{257, 258});
}

TEST_CASE("a checkpoint's configs say what tokenizer.json does not") {
  io::Checkpoint c;
  c.kind = io::Checkpoint::Kind::safetensors;
  c.tokenizer_json = reader_of(read_file(tiny_path()));
  CHECK(!text::tokenizer_from_checkpoint(c).adds_bos());
  c.tokenizer_config = io::parse_json(
      R"({"add_bos_token":true,"bos_token":{"content":"<｜begin▁of▁sentence｜>"},"eos_token":"<｜User｜>","chat_template":[{"name":"tool_use","template":"T"},{"name":"default","template":"D"}]})",
      "test");
  c.generation_config = io::parse_json(R"({"eos_token_id":[1,1008,5000]})", "test");
  const Tokenizer t = text::tokenizer_from_checkpoint(c);
  CHECK(t.adds_bos());
  CHECK(t.eos() == kUser);
  CHECK(std::vector<Token>(t.end_of_generation().begin(), t.end_of_generation().end()) == Ids{1, kUser, kAssistant});
  CHECK(text::bos_text(t) == "<｜begin▁of▁sentence｜>");
  CHECK(text::eos_text(t) == "<｜User｜>");
  CHECK(text::chat_template_source(c) == "D");
  c.chat_template_jinja = "J";
  CHECK(text::chat_template_source(c) == "J");
}

TEST_CASE("tokens that look like control tokens are, though the file says otherwise") {
  // "special": false in the file; see the converter rule for <|...|>.
  CHECK(tiny().kind(1011) == TokenKind::control);  // <｜tool▁calls▁begin｜>
  CHECK(tiny().kind(kThink) == TokenKind::user_defined);
  CHECK(tiny().find("<think>") == kThink);
  CHECK(tiny().find("<thunk>") == kNoToken);
}
