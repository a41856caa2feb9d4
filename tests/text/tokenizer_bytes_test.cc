// Any bytes go in and come out; decoding whole and as a stream.
#include <random>
#include <thread>

#include "lib/text/tokenizer_json.h"
#include "tests/catch.h"
#include "tests/text/tokenizer_fixtures.h"

using namespace dsv31;
using namespace dsv31::test;
using Ids = std::vector<Token>;

namespace {

std::string random_bytes(std::mt19937& random, std::size_t n) {
  std::string s;
  while (s.size() < n) {
    switch (random() % 4) {
      case 0:
        s += static_cast<char>(random() % 256);
        break;
      case 1:
        s += static_cast<char>(random() % 128);
        break;
      case 2:
        s += "the sum of 12 and\n 7 is <think>"[random() % 31];
        break;
      default:
        text::utf8_append(s, static_cast<std::uint32_t>(0x80 + random() % 0xD000));
    }
  }
  return s;
}

Tokenizer sentencepiece(bool prefix) {
  GgufBuilder b = sentencepiece_gguf({"\u2581", "t", "h", "e", "o", "th", "the", "\u2581the", "\u2581t", "é"});
  b.boolean("tokenizer.ggml.add_space_prefix", prefix);
  const std::string file = b.build();
  return Tokenizer::open(memory_reader(file.data(), file.size()));
}

}  // namespace

TEST_CASE("P01 empty and blank texts") {
  CHECK(tiny().encode("").empty());
  CHECK(tiny().encode(PromptText{}).empty());
  CHECK(tiny().decode({}).empty());
  for (const char* const s : {" ", "\n", "   ", "\t \r\n"}) CHECK(tiny().decode(tiny().encode(s)) == s);
  CHECK(tiny().encode("<｜begin▁of▁sentence｜>", {.special = Special::all}) == Ids{0});
  CHECK(sentencepiece(true).encode("").empty());
}

TEST_CASE("P02 invalid UTF-8, surrogates, overlong forms and NUL round-trip") {
  const std::string cases[] = {std::string("\0", 1), std::string("a\0b", 3), "\xFF\xFE", "\xC0\xAF",
                               "\xED\xA0\x80",       "\xF4\x90\x80\x80",     "\xE4\xB8", "\x80",
                               "a\xE4\xB8 b"};
  for (const Tokenizer& t : {tiny(), sentencepiece(true), sentencepiece(false)})
    for (const std::string& s : cases) CHECK(t.decode(t.encode(s)) == s);
}

TEST_CASE("random bytes round-trip through byte-level BPE and SentencePiece") {
  std::mt19937 random(31);
  const Tokenizer spm[] = {sentencepiece(true), sentencepiece(false)};
  for (int round = 0; round < 3000; ++round) {
    const std::string s = random_bytes(random, random() % 64);
    for (const Special special : {Special::none, Special::user_defined, Special::all})
      REQUIRE(tiny().decode(tiny().encode(s, {.special = special})) == s);
    std::string spaced = s;  // U+2581 is how these vocabularies spell a space
    for (std::size_t at; (at = spaced.find("\u2581")) != std::string::npos;) spaced.replace(at, 3, 1, ' ');
    for (const Tokenizer& t : spm) REQUIRE(t.decode(t.encode(s)) == spaced);
  }
}

TEST_CASE("a stream says what decoding the whole says, at every border") {
  std::mt19937 random(32);
  for (const Tokenizer& t : {tiny(), sentencepiece(true)})
    for (int round = 0; round < 300; ++round) {
      std::string s;
      for (int i = 0; i < 12; ++i)
        text::utf8_append(s, random() % 2 == 0 ? 0x20 + random() % 0x5F : 0x80 + static_cast<std::uint32_t>(random() % 0xD000));
      StreamDecoder stream(t);
      std::string joined;
      for (const Token id : t.encode(s)) {
        const std::string part = stream.push(id);
        for (std::size_t i = 0; i < part.size();) {
          const std::size_t n = text::utf8_valid_length(part.data() + i, part.data() + part.size());
          REQUIRE(n > 0);
          i += n;
        }
        joined += part;
      }
      joined += stream.finish();
      REQUIRE(joined == t.decode(t.encode(s)));
    }
}

TEST_CASE("a stream holds back half characters and replaces broken ones") {
  const auto byte = [](int b) { return tiny().encode(std::string(1, static_cast<char>(b))).front(); };
  StreamDecoder s(tiny());
  CHECK(s.push(byte(0xE4)) == "");
  CHECK(s.push(byte(0xB8)) == "");
  CHECK(s.push(byte(0xAD)) == "中");
  CHECK(s.push(byte(0xE4)) == "");
  CHECK(s.push(byte('a')) == "\uFFFDa");
  CHECK(s.push(byte(0x80)) == "\uFFFD");
  CHECK(s.push(byte(0xF0)) == "");
  CHECK(s.push(byte(0x9F)) == "");
  CHECK(s.finish() == "\uFFFD");
  CHECK(s.finish() == "");
}

TEST_CASE("a stream leaves special tokens out unless asked") {
  StreamDecoder skip(tiny()), keep(tiny(), false);
  CHECK(skip.push(1) == "");
  CHECK(keep.push(1) == "<｜end▁of▁sentence｜>");
  CHECK(tiny().decode(Ids{0, 1009, 1}, true) == "<think>");
}

TEST_CASE("SentencePiece puts a space before text and takes it away again") {
  const Tokenizer with = sentencepiece(true), without = sentencepiece(false);
  const Token the = with.find("\u2581the");
  CHECK(with.encode("the") == Ids{the});
  CHECK(with.decode(Ids{the, the}) == "the the");
  CHECK(with.piece(the) == " the");
  CHECK(with.encode("the</s>the", {.special = Special::all}) == Ids{the, 2, the});
  CHECK(without.encode("the") == Ids{without.find("the")});
  CHECK(without.decode(Ids{the}) == " the");
  StreamDecoder stream(with);
  CHECK(stream.push(1) == "");
  CHECK(stream.push(the) == "the");
  CHECK(stream.push(the) == " the");
  CHECK(with.adds_bos());
  CHECK(with.encode("é") == Ids{with.find("\u2581"), with.find("é")});
  CHECK(with.encode("ü") == Ids{with.find("\u2581"), with.find("<0xC3>"), with.find("<0xBC>")});
}

TEST_CASE("tokenizer.json models over characters: prefix, byte fallback, merges") {
  const std::string head = R"({"added_tokens":[{"id":0,"content":"<unk>","special":true}],)";
  const std::string model =
      R"("model":{"type":"BPE","unk_token":"<unk>","byte_fallback":true,"vocab":{"<unk>":0,"<0xC3>":1,"<0xBC>":2,"▁":3,"h":4,"i":5,"hi":6,"▁hi":7},"merges":["h i","▁ hi"]}})";
  const auto load = [&](const std::string& steps) { return finish(text::load_tokenizer_json(head + steps + model)); };
  const std::string replace = R"({"type":"Replace","pattern":{"String":" "},"content":"▁"})";
  const Tokenizer llama = load(
      R"("normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},)" + replace +
      R"(]},"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"Strip","content":" ","start":1,"stop":0}]},)");
  CHECK(llama.encode("hi hi") == Ids{7, 7});
  CHECK(llama.encode(" hi") == Ids{3, 7});
  CHECK(llama.encode("ü") == Ids{3, 1, 2});
  CHECK(llama.encode("z") == Ids{3, 0});
  CHECK(llama.decode(Ids{7, 7}) == "hi hi");
  const Tokenizer gemma = load(
      R"("normalizer":)" + replace +
      R"(,"pre_tokenizer":{"type":"Split","pattern":{"String":" "},"behavior":"MergedWithPrevious","invert":false},"decoder":{"type":"Replace","pattern":{"String":"▁"},"content":" "},)");
  CHECK(gemma.encode("hi hi") == Ids{6, 7});
  CHECK(gemma.decode(Ids{7, 7}) == " hi hi");
  const Tokenizer first = load(
      R"("pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true},"decoder":{"type":"Metaspace"},)");
  CHECK(first.encode("hi<unk>hi", {.special = Special::all}) == Ids{7, 0, 6});
  CHECK(first.encode(" hi") == Ids{7});
}

TEST_CASE("WordPiece covers words greedily or not at all") {
  const Tokenizer t = finish(text::load_tokenizer_json(
      R"({"added_tokens":[{"id":0,"content":"[UNK]","special":true},{"id":1,"content":"[CLS]","special":true},{"id":2,"content":"[SEP]","special":true}],
          "normalizer":{"type":"BertNormalizer","lowercase":true},"pre_tokenizer":{"type":"BertPreTokenizer"},
          "post_processor":{"type":"BertProcessing","sep":["[SEP]",2],"cls":["[CLS]",1]},"decoder":{"type":"WordPiece","prefix":"##"},
          "model":{"type":"WordPiece","unk_token":"[UNK]","vocab":{"[UNK]":0,"[CLS]":1,"[SEP]":2,"un":3,"##aff":4,"##able":5,"cafe":6,"!":7,"中":8}}})"));
  CHECK(t.encode("Unaffable  café!") == Ids{3, 4, 5, 6, 7});
  CHECK(t.encode("unaffx 中中") == Ids{0, 8, 8});
  CHECK(t.encode("un", {.bos = true, .eos = true}) == Ids{1, 3, 2});
  CHECK(t.adds_bos());
  CHECK(t.decode(Ids{3, 4, 5, 6}) == "unaffable cafe");
}

TEST_CASE("normal forms are those of the Unicode standard") {
  const auto form = [](std::string_view s, bool compose, bool compatibility) {
    std::string out;
    text::append_normal_form(s, compose, compatibility, out);
    return out;
  };
  CHECK(form("e\u0301", true, false) == "é");
  CHECK(form("é", false, false) == "e\u0301");
  CHECK(form("a\u0301\u0323", true, false) == "\u1EA1\u0301");
  CHECK(form("\u1112\u1161\u11AB", true, false) == "한");
  CHECK(form("か\u3099", true, false) == "が");
  CHECK(form("ﬁ①", true, true) == "fi1");
  CHECK(form("ﬁ①", true, false) == "ﬁ①");
  CHECK(form("\u212B", true, false) == "\u00C5");
}

TEST_CASE("threads that share a tokenizer get what one gets") {
  const Tokenizer t = Tokenizer::open(tiny_path());  // has found out nothing yet
  const std::string s = "The capital of France is Paris, and 12 + 30 = 42.\n<think>Count: one, two, three.</think>";
  std::vector<Ids> got(4);
  std::vector<std::thread> threads;
  for (Ids& ids : got) threads.emplace_back([&] { ids = t.encode(s); });
  for (std::thread& thread : threads) thread.join();
  for (const Ids& ids : got) CHECK(ids == tiny().encode(s));
}
