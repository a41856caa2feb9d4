// Hostile vocabularies: each case names the code and the field, and has a twin that loads.
#include "lib/text/gguf_vocab.h"
#include "lib/text/tokenizer_factory.h"
#include "lib/text/tokenizer_json.h"
#include "tests/expect_error.h"
#include "tests/memory_files.h"
#include "tests/text/tokenizer_fixtures.h"

using namespace dsv31;
using namespace dsv31::test;

namespace {

// A byte-level tokenizer.json of four tokens, with parts to exchange.
struct Json {
  std::string vocab = R"({"a":0,"b":1,"ab":2})";
  std::string merges = R"(["a b"])";
  std::string added = R"([{"id":3,"content":"<s>","special":true}])";
  std::string pre = R"({"type":"ByteLevel","add_prefix_space":false})";
  std::string model_rest, rest;
  std::string str() const {
    return R"({"added_tokens":)" + added + R"(,"pre_tokenizer":)" + pre + rest + R"(,"model":{"type":"BPE")" + model_rest +
           R"(,"vocab":)" + vocab + R"(,"merges":)" + merges + "}}";
  }
};

Tokenizer open_text(const std::string& s) { return Tokenizer::open(memory_reader(s.data(), s.size())); }
Tokenizer open_json(const Json& j) { return open_text(j.str()); }

GgufBuilder gguf(std::vector<std::string> tokens, std::vector<std::string> merges, std::vector<std::int32_t> types) {
  GgufBuilder b;
  b.string("tokenizer.ggml.model", "gpt2")
      .string("tokenizer.ggml.pre", "gpt-2")
      .strings("tokenizer.ggml.tokens", tokens)
      .strings("tokenizer.ggml.merges", merges)
      .i32s("tokenizer.ggml.token_type", types);
  return b;
}
GgufBuilder good_gguf() { return gguf({"a", "b", "ab", "<s>"}, {"a b"}, {1, 1, 1, 3}); }
Tokenizer open_gguf(const GgufBuilder& b) { return open_text(b.build()); }

}  // namespace

TEST_CASE("the well-formed twins load") {
  const Tokenizer t = open_json({});
  CHECK(t.vocab_size() == 4);
  CHECK(t.encode("ab<s>", {.special = Special::all}) == std::vector<Token>{2, 3});
  const Tokenizer g = open_gguf(good_gguf());
  CHECK(g.encode("ab<s>", {.special = Special::all}) == std::vector<Token>{2, 3});
}

TEST_CASE("T01 tokenizer.json that is not JSON, has bytes behind it, or nests too deep") {
  expect_error(Code::format, {"tokenizer"}, [] { open_text("hello"); });
  expect_error(Code::format, {"tokenizer"}, [] { open_text(""); });
  expect_error(Code::format, {"tokenizer.json", "byte"}, [] { open_text(Json{}.str().substr(0, 100)); });
  expect_error(Code::format, {"tokenizer.json", "byte"}, [] { open_text(Json{}.str() + "x"); });
  Json deep;
  deep.rest = R"(,"x":)" + std::string(1000, '[') + std::string(1000, ']');
  expect_error(Code::limit, {"tokenizer.json"}, [&] { open_json(deep); });
  deep.rest = R"(,"x":[[[]]])";
  CHECK(open_json(deep).vocab_size() == 4);
  const SparseReader big("{", std::uint64_t{1} << 30);
  expect_error(Code::limit, {"tokenizer.json"},
               [&] { Tokenizer::open(std::shared_ptr<const Reader>(&big, [](const Reader*) {})); });
}

TEST_CASE("T02 ids with gaps, repeats, negatives and out of range") {
  const auto vocab = [](std::string v) {
    Json j;
    j.vocab = std::move(v);
    return j;
  };
  expect_error(Code::format, {"model.vocab", "no token 2"}, [&] { open_json(vocab(R"({"a":0,"b":1,"ab":4})")); });
  expect_error(Code::format, {"model.vocab", "id 1 twice"}, [&] { open_json(vocab(R"({"a":0,"b":1,"ab":1})")); });
  expect_error(Code::format, {"model.vocab", "id -1"}, [&] { open_json(vocab(R"({"a":0,"b":-1,"ab":2})")); });
  expect_error(Code::limit, {"model.vocab", "9000000000"}, [&] { open_json(vocab(R"({"a":0,"b":1,"ab":9000000000})")); });
  expect_error(Code::format, {"model.vocab"}, [&] { open_json(vocab(R"({"a":0,"b":1.5,"ab":2})")); });
  expect_error(Code::format, {"token 2", "token 0"}, [&] { open_json(vocab(R"({"a":0,"b":1,"a":2,"ab":4})")); });
  Json j;
  j.added = R"([{"id":3,"content":"<s>"},{"id":3,"content":"<t>"}])";
  expect_error(Code::format, {"added_tokens", "id 3 twice"}, [&] { open_json(j); });
  j.added = R"([{"id":3,"content":"<s>"},{"id":1,"content":"c"}])";
  expect_error(Code::format, {"added_tokens", "token 1"}, [&] { open_json(j); });
  j.added = R"([{"id":3,"content":"<s>"},{"id":1,"content":"b"}])";
  CHECK(open_json(j).kind(1) == TokenKind::user_defined);

  expect_error(Code::mismatch, {"tokenizer.ggml.bos_token_id", "got 4", "0 to 3"},
               [] { open_gguf(good_gguf().u32("tokenizer.ggml.bos_token_id", 4)); });
  CHECK(open_gguf(good_gguf().u32("tokenizer.ggml.bos_token_id", 3)).bos() == 3);
  expect_error(Code::mismatch, {"tokenizer.ggml.eot_token_id"},
               [] { open_gguf(good_gguf().i32("tokenizer.ggml.eot_token_id", -2)); });
  expect_error(Code::format, {"token 3", "token 0"}, [] { open_gguf(gguf({"a", "b", "ab", "a"}, {"a b"}, {1, 1, 1, 1})); });
  expect_error(Code::format, {"tokenizer.ggml.token_type", "3 elements", "4"},
               [] { open_gguf(gguf({"a", "b", "ab", "<s>"}, {"a b"}, {1, 1, 1})); });
  expect_error(Code::format, {"tokenizer.ggml.token_type", "got 9 for token 1"},
               [] { open_gguf(gguf({"a", "b", "ab", "<s>"}, {"a b"}, {1, 9, 1, 3})); });
}

TEST_CASE("T03 merges that name no token or are not two texts") {
  const auto merges = [](std::string m) {
    Json j;
    j.merges = std::move(m);
    return j;
  };
  expect_error(Code::format, {"model.merges", "merge 1"}, [&] { open_json(merges(R"(["a b","a c"])")); });
  expect_error(Code::format, {"model.merges", "merge 1"}, [&] { open_json(merges(R"(["a b","b a"])")); });
  expect_error(Code::format, {"model.merges", "merge 1"}, [&] { open_json(merges(R"(["a b","ab"])")); });
  expect_error(Code::format, {"model.merges", "merge 0"}, [&] { open_json(merges(R"(["a b c"])")); });
  expect_error(Code::format, {"model.merges", "merge 0"}, [&] { open_json(merges(R"([["a","b","c"]])")); });
  expect_error(Code::format, {"model.merges", "merge 0", "1 texts"}, [&] { open_json(merges(R"([["a"]])")); });
  expect_error(Code::format, {"model.merges", "merge 1"}, [&] { open_json(merges(R"(["a b",7])")); });
  CHECK(open_json(merges(R"([["a","b"]])")).encode("ab") == std::vector<Token>{2});
  CHECK(open_json(merges(R"(["a b","a b"])")).encode("ab") == std::vector<Token>{2});
  expect_error(Code::format, {"tokenizer.ggml.merges", "merge 0"}, [] { open_gguf(gguf({"a", "b"}, {"a b"}, {1, 1})); });
  expect_error(Code::format, {"tokenizer.ggml.merges", "merge 1"},
               [] { open_gguf(gguf({"a", "b", "ab"}, {"a b", "ab"}, {1, 1, 1})); });
  std::string many = "[";
  for (std::size_t i = 0; i <= text::kMaxMerges; ++i) many += i == 0 ? "\"a b\"" : ",\"a b\"";
  expect_error(Code::limit, {"model.merges"}, [&] { open_json(merges(many + "]")); });
}

TEST_CASE("T04 malformed byte tokens") {
  for (const char* const bad : {"<0x+A>", "<0xG0>", "<0x100>", "<0x1>", "<0x >", "<0x-1>"}) {
    Json j;
    j.pre = "null";
    j.model_rest = R"(,"byte_fallback":true)";
    j.vocab = R"({"a":0,"b":1,"ab":2,"<0x41>":4,")" + std::string(bad) + R"(":5})";
    INFO(bad);
    expect_error(Code::format, {"token 5", "byte token"}, [&] { open_json(j); });
    expect_error(Code::format, {"token 0", "byte token"}, [&] { open_gguf(gguf({bad, "a"}, {}, {6, 1})); });
  }
  Json j;
  j.pre = "null";
  j.model_rest = R"(,"byte_fallback":true)";
  j.vocab = R"({"a":0,"b":1,"ab":2,"<0x41>":4,"<0x4f>":5})";
  const Tokenizer t = open_json(j);
  CHECK(t.kind(5) == TokenKind::byte);
  CHECK(t.piece(5) == "O");
  CHECK(t.encode("AO<0x41>") == std::vector<Token>{4, 5});  // typed out it is no byte token
}

TEST_CASE("T05 empty added tokens, tokens of 1 MiB, invalid UTF-8") {
  Json j;
  j.added = R"([{"id":3,"content":"","special":true}])";
  expect_error(Code::format, {"added_tokens", "token 3"}, [&] { open_json(j); });
  j.added = R"([{"id":3,"content":")" + std::string(1 << 20, 'x') + R"(","special":true}])";
  expect_error(Code::format, {"token 3", "1048576 bytes"}, [&] { open_json(j); });
  j.added = R"([{"id":3,"content":")" + std::string(2000, 'x') + R"(","special":true}])";
  expect_error(Code::format, {"special token 3", "2000 bytes", "1 to 1024"}, [&] { open_json(j); });
  j.added = R"([{"id":3,"content":")" + std::string(1024, 'x') + R"(","special":true}])";
  CHECK(open_json(j).encode(std::string(3000, 'x'), {.special = Special::all}).front() == 3);
  expect_error(Code::format, {"special token 1", "0 bytes"}, [] { open_gguf(gguf({"a", ""}, {}, {1, 3})); });
  CHECK(open_gguf(gguf({"a", ""}, {}, {1, 1})).piece(1).empty());
  expect_error(Code::format, {"token 1", "UTF-8"}, [] { open_gguf(gguf({"a", "\xFF"}, {}, {1, 1})); });
}

TEST_CASE("T06 unknown and pathological pre-tokenizers") {
  const auto pre = [](std::string p) {
    Json j;
    j.pre = std::move(p);
    j.rest = R"(,"decoder":{"type":"ByteLevel"})";
    return j;
  };
  const auto pattern = [&](std::string_view p) {
    return pre(R"({"type":"Split","behavior":"Isolated","pattern":{"Regex":")" + std::string(p) + R"("}})");
  };
  expect_error(Code::unsupported, {"pre_tokenizer.type", "Mystery"}, [&] { open_json(pre(R"({"type":"Mystery"})")); });
  expect_error(Code::unsupported, {"pattern"}, [&] { open_json(pattern("(")); });
  expect_error(Code::unsupported, {"pattern", "class inside a class"}, [&] { open_json(pattern("[a[b]]")); });
  expect_error(Code::unsupported, {"pattern", "another meaning"}, [&] { open_json(pattern("\\\\K")); });
  expect_error(Code::unsupported, {"pattern", "flag"}, [&] { open_json(pattern("(?m:a)")); });
  expect_error(Code::format, {"behavior"},
               [&] { open_json(pre(R"({"type":"Split","behavior":"Sideways","pattern":{"Regex":"a"}})")); });
  expect_error(Code::unsupported, {"tokenizer.ggml.pre", "mystery"}, [] {
    GgufBuilder b = good_gguf();
    b.values[1] = {"tokenizer.ggml.pre", GgufBuilder().string("", "mystery").values[0].second};
    open_gguf(b);
  });
  // Backtracking ends at the match limit, with or without compiled code.
  const Tokenizer t = open_json(pattern("(a+)+$|(a|aa)+b"));
  expect_error(Code::limit, {"pre-tokenizer pattern"}, [&] { t.encode(std::string(5000, 'a') + "!"); });
  CHECK(t.encode("aaab") == std::vector<Token>{0, 0, 2});
}

TEST_CASE("vocabularies that cannot be read are refused by name") {
  GgufBuilder none;
  none.string("tokenizer.ggml.model", "no_vocab");
  expect_error(Code::not_found, {"tokenizer.ggml.model"}, [&] { open_gguf(none); });
  GgufBuilder t5;
  t5.string("tokenizer.ggml.model", "t5");
  expect_error(Code::unsupported, {"tokenizer.ggml.model", "t5"}, [&] { open_gguf(t5); });
  expect_error(Code::unsupported, {"Unigram"}, [] { open_text(R"({"model":{"type":"Unigram","vocab":[["a",0.0]]}})"); });
  expect_error(Code::unsupported, {"normalizer.type", "Precompiled"}, [] {
    Json j;
    j.rest = R"(,"normalizer":{"type":"Precompiled","precompiled_charsmap":""})";
    open_json(j);
  });
  expect_error(Code::not_found, {"tokenizer.json"}, [] {
    io::Checkpoint c;
    c.kind = io::Checkpoint::Kind::safetensors;
    text::tokenizer_from_checkpoint(c);
  });
}

TEST_CASE("a missing tokenizer.ggml.pre is a warning") {
  GgufBuilder b;
  b.string("tokenizer.ggml.model", "gpt2").strings("tokenizer.ggml.tokens", {"a"}).strings("tokenizer.ggml.merges", {});
  const Tokenizer t = open_gguf(b);
  REQUIRE(text::tokenizer_warnings(t).size() == 1);
  CHECK(text::tokenizer_warnings(t)[0].find("tokenizer.ggml.pre") != std::string::npos);
  CHECK(text::tokenizer_warnings(open_gguf(good_gguf())).empty());
}

TEST_CASE("P05 token ids out of range and texts that are too long") {
  const Tokenizer& t = tiny();
  for (const Token bad : {-1, 1024, 2147483647, -2147483647 - 1}) {
    expect_error(Code::argument, {"token id", "0 to 1023"}, [&] { t.decode(std::vector<Token>{5, bad}); });
    expect_error(Code::argument, {"token id"}, [&] { t.piece(bad); });
    expect_error(Code::argument, {"token id"}, [&] { t.kind(bad); });
    expect_error(Code::argument, {"token id"}, [&] { StreamDecoder(t).push(bad); });
    CHECK(!t.is_end_of_generation(bad));
  }
  CHECK(t.decode(std::vector<Token>{5, 1023}).size() > 1);
  const char byte = 'x';
  expect_error(Code::limit, {"text", "2147483648 bytes"}, [&] { t.encode(std::string_view(&byte, std::size_t{1} << 31)); });
}

TEST_CASE("trusted ranges must be disjoint, ascending and inside the text") {
  using Ranges = std::vector<PromptText::Range>;
  for (const Ranges& bad : {Ranges{{2, 1}}, Ranges{{0, 6}}, Ranges{{2, 3}, {1, 2}}, Ranges{{0, 3}, {2, 4}}})
    expect_error(Code::argument, {"trusted"}, [&] { tiny().encode(PromptText{"hello", bad}); });
  CHECK(tiny().encode(PromptText{"hello", {{0, 2}, {2, 5}}}) == tiny().encode("hello"));
}
