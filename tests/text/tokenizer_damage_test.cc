// Vocabulary files with damaged bytes: each loads or is refused by an Error, and what loads still gives every text back or not,
// but never leaves its ids.
#include <random>

#include "tests/catch.h"
#include "tests/text/tokenizer_fixtures.h"

using namespace dsv31;
using namespace dsv31::test;

namespace {

// Returns how many of the damaged files were refused.
int damage(const std::string& good, int rounds, unsigned seed, std::string_view alphabet) {
  std::mt19937 random(seed);
  int refused = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string s = good;
    for (unsigned n = 1 + random() % 3; n > 0; --n) {
      const std::size_t at = random() % s.size();
      switch (random() % 4) {
        case 0:
          s[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          s[at] = alphabet[random() % alphabet.size()];
          break;
        case 2:
          s.erase(at, 1 + random() % 8);
          break;
        default:
          s.insert(at, s, random() % s.size(), random() % 16);
      }
    }
    if (random() % 8 == 0) s.resize(random() % s.size());
    try {
      const Tokenizer t = Tokenizer::open(memory_reader(s.data(), s.size()));
      for (const Special special : {Special::none, Special::all})
        for (const Token id : t.encode("The sum\nof 12 \xFF <think> \u4e2d<s>", {.special = special, .bos = true}))
          REQUIRE(!(id < 0));
      t.decode(t.encode("hello world"));
    } catch (const Error& e) {
      ++refused;
      REQUIRE(std::string_view(e.what()).size() < 512);
    }
  }
  return refused;
}

}  // namespace

TEST_CASE("damaged tokenizer.json files load or are refused") {
  CHECK(damage(read_file(tiny_path()), 300, 1, "\"\\{}[]:,0123456789null ") > 100);
}

TEST_CASE("damaged settings of a small tokenizer.json load or are refused") {
  const std::string good =
      R"({"added_tokens":[{"id":5,"content":"<s>","special":true,"lstrip":true,"rstrip":false,"single_word":false,"normalized":false}],)"
      R"("normalizer":{"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Replace","pattern":{"Regex":"\\s+"},"content":" "}]},)"
      R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"[a-c&&[^b]]+|\\p{Han}"},"behavior":"MergedWithNext","invert":true},)"
      R"({"type":"Digits","individual_digits":true},{"type":"ByteLevel","add_prefix_space":false}]},)"
      R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A"}}]},)"
      R"("decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"h":0,"e":1,"l":2,"he":3,"hel":4},"merges":["h e",["he","l"]]}})";
  CHECK(Tokenizer::open(memory_reader(good.data(), good.size())).encode("hel", {.bos = true}) == std::vector<Token>{5, 4});
  CHECK(damage(good, 4000, 2, "\"\\{}[]:,0123456789null &()+*?^") > 2000);
}

TEST_CASE("damaged GGUF vocabularies load or are refused") {
  GgufBuilder b = sentencepiece_gguf({"\u2581", "t", "h", "th", "\u2581th"});
  b.boolean("tokenizer.ggml.add_space_prefix", true).u32("tokenizer.ggml.bos_token_id", 1);
  CHECK(damage(b.build(), 2000, 3, std::string_view("\0\1\2\xFF\x7F", 5)) > 500);
}
