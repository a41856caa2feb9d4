// Pre-tokenizer presets against pieces recorded from Hugging Face tokenizers, and the hand-written matchers against their
// patterns.
#include <random>

#include "tests/expect_error.h"
#include "tests/text/tokenizer_fixtures.h"

using namespace dsv31;
using namespace dsv31::test;
using Pieces = std::vector<std::string>;

TEST_CASE("deepseek-v3 cuts text as the reference does") {
  CHECK(pieces("deepseek-v3", "Hello, world! 12345 你好") == Pieces{"Hello", ",", " world", "!", " ", "123", "45", " ", "你好"});
  CHECK(pieces("deepseek-v3", "  def f(x):\n    return x+1\n") ==
        Pieces{" ", " def", " f", "(x", "):\n", "   ", " return", " x", "+", "1", "\n"});
  CHECK(pieces("deepseek-v3", "don't stop\r\n\r\n\tok") == Pieces{"don", "'t", " stop", "\r\n\r\n", "\tok"});
  CHECK(pieces("deepseek-v3", "a  b   c ") == Pieces{"a", " ", " b", "  ", " c", " "});
  CHECK(pieces("deepseek-v3", "カタカナと漢字123") == Pieces{"カタカナと漢字", "123"});
}

TEST_CASE("a look-ahead sees the end of its piece, not the piece behind it") {
  // The spaces stand before a number, which an earlier step cut off: for the last step nothing follows them.
  CHECK(pieces("deepseek-v3", "a   1") == Pieces{"a", "   ", "1"});
  CHECK(pieces("deepseek-v3", "a   b") == Pieces{"a", "  ", " b"});
  CHECK(pieces("smollm", "x  7") == Pieces{"x", "  ", "7"});
}

TEST_CASE("the other presets cut text as their patterns say") {
  CHECK(pieces("llama-bpe", "I'LL pay 12345 now!\n\n ok") ==
        Pieces{"I", "'LL", " pay", " ", "123", "45", " now", "!\n\n", " ok"});
  CHECK(pieces("qwen2", "it's 123") == Pieces{"it", "'s", " ", "1", "2", "3"});
  CHECK(pieces("gpt-2", "it'S 123  go") == Pieces{"it", "'", "S", " 123", " ", " go"});
  CHECK(pieces("default", "a+b 1234") == Pieces{"a", "+", "b", " ", "123", "4"});
  CHECK(pieces("deepseek-llm", "Hi 中文! 12\n") == Pieces{"Hi", " ", "中文", "!", " ", "12", "\n"});
  CHECK(pieces("deepseek-coder", "Hi 12!") == Pieces{"Hi", " ", "1", "2", "!"});
  CHECK(pieces("gpt-4o", "HelloWorld it's") == Pieces{"Hello", "World", " it's"});
  CHECK(pieces("kimi-k2", "abc中文def") == Pieces{"abc", "中文", "def"});
}

TEST_CASE("names of the same pre-tokenizer mean the same") {
  CHECK(text::find_preset("deepseek-v3.1") == text::find_preset("deepseek-v3"));
  CHECK(text::find_preset("llama3") == text::find_preset("llama-bpe"));
  CHECK(text::find_preset("deepseek-r1-qwen") == text::find_preset("qwen2"));
  CHECK(text::find_preset("nobody-has-this") == nullptr);
}

TEST_CASE("White_Space is not PCRE2's: U+180E is no space, U+0085 is one") {
  for (const bool scanners : {true, false}) {
    CHECK(pieces("gpt-2", "a\u180Eb", {.scanners = scanners, .jit = true}) == Pieces{"a", "\u180E", "b"});
    CHECK(pieces("gpt-2", "a\u0085\u0085", {.scanners = scanners, .jit = true}) == Pieces{"a", "\u0085\u0085"});
  }
}

TEST_CASE("bytes that are no UTF-8 are pieces of their own") {
  CHECK(pieces("deepseek-v3", "ab\xFF\xFE cd") == Pieces{"ab", "\xFF\xFE", " cd"});
  CHECK(pieces("deepseek-llm", "ab\xE4\xB8 cd") == Pieces{"ab", "\xE4\xB8", " cd"});
}

TEST_CASE("hand-written matchers, compiled patterns and interpreted patterns agree on random text") {
  const char* const parts[] = {
      "a",    "Zz",  " ",    "  ",      "\t", "\n", "\r\n", "\r",     "1",      "23",     "4567",      "'",      "'s",
      "'S",   "'re", "'LL",  "'\u017F", "!",  "#x", "+",    "<",      "_",      "é",      "ß",         "\u0301", "\u0308\u0301",
      "中文", "々",  "カナ", "ひ",      "ー", "한", "ไ",    "\u00A0", "\u3000", "\u2028", "\u0085",    "\u180E", "\u200B",
      "½",    "²",   "٣",    "Ⅷ",       "€",  "—",  "“",    "\x01",   "\x7F",   "😀",     "\U00020000"};
  std::mt19937 random(20240607);
  for (const char* const preset : {"deepseek-v3", "llama-bpe", "qwen2", "gpt-2", "smollm", "default", "minicpm5"}) {
    for (int round = 0; round < 1500; ++round) {
      std::string s;
      for (unsigned n = 1 + random() % 12; n > 0; --n) s += parts[random() % (sizeof parts / sizeof parts[0])];
      const Pieces by_hand = pieces(preset, s, {.scanners = true, .jit = true});
      INFO(preset << ": " << s);
      REQUIRE(by_hand == pieces(preset, s, {.scanners = false, .jit = round % 2 == 0}));
      std::string joined;
      for (const std::string& p : by_hand) joined += p;
      REQUIRE(joined == s);
    }
  }
}

TEST_CASE("a pattern step puts matches and gaps together as its behavior says") {
  const auto cut = [](text::SplitStep::Behavior behavior, bool invert) {
    text::VocabData v;
    v.splits.push_back({text::SplitStep::Kind::pattern, "-", behavior, invert});
    const text::PreTokenizer splits(v.splits);
    const auto scratch = splits.make_scratch(20);
    text::Work work;
    Pieces out;
    const auto sink = [&](std::string_view p) { out.emplace_back(p); };
    splits.split("the-final--countdown", scratch.get(), work, sink);
    return out;
  };
  using B = text::SplitStep::Behavior;
  CHECK(cut(B::removed, false) == Pieces{"the", "final", "countdown"});
  CHECK(cut(B::isolated, false) == Pieces{"the", "-", "final", "-", "-", "countdown"});
  CHECK(cut(B::merged_with_previous, false) == Pieces{"the-", "final-", "-", "countdown"});
  CHECK(cut(B::merged_with_next, false) == Pieces{"the", "-final", "-", "-countdown"});
  CHECK(cut(B::contiguous, false) == Pieces{"the", "-", "final", "--", "countdown"});
  CHECK(cut(B::removed, true) == Pieces{"-", "-", "-"});
}

TEST_CASE("pattern constructs that PCRE2 reads differently are rewritten") {
  CHECK(text::translate_pattern(R"(a\S)", "test").substr(0, 3) == "a[^");
  CHECK(text::translate_pattern(R"(\p{Han}\P{L}\p{^N})", "test") == R"(\p{sc:Han}\P{L}\P{N})");
  CHECK(text::translate_pattern(R"(\u4e00\v[\h])", "test") == R"(\x{4e00}\x{b}[0-9A-Fa-f])");
  CHECK(text::translate_pattern(R"([\p{L}&&[^\p{Han}]]+)", "test") == R"((?:(?=[^\p{sc:Han}])[\p{L}])+)");
}

TEST_CASE("white space at a line's end is found in linear time and in the same places") {
  const text::Pattern as_written(text::translate_pattern(R"(\s+$)", "test"), "test");
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    std::string s;
    for (unsigned n = random() % 10; n > 0; --n) s += " \t\n\nab"[random() % 6];
    text::PatternScratch scratch(std::chrono::seconds(10));
    Pieces want;
    std::size_t from = 0, begin = 0, end = 0;
    for (; as_written.search(s, from, scratch, begin, end); from = end) {
      if (from < begin) want.push_back(s.substr(from, begin - from));
      want.push_back(s.substr(begin, end - begin));
    }
    if (from < s.size()) want.push_back(s.substr(from));
    text::VocabData v;
    v.splits.push_back({text::SplitStep::Kind::pattern, R"(\s+$)", text::SplitStep::Behavior::isolated, false});
    const text::PreTokenizer splits(v.splits);
    const auto step_scratch = splits.make_scratch(s.size());
    text::Work work;
    Pieces got;
    const auto sink = [&](std::string_view piece) { got.emplace_back(piece); };
    splits.split(s, step_scratch.get(), work, sink);
    REQUIRE(got == want);
  }
  // As written this would pass the match limit.
  CHECK(pieces("deepseek-llm", std::string(1 << 20, ' ') + "中") == Pieces{std::string(1 << 20, ' '), "中"});
}

TEST_CASE("T06 a pattern that is slow without backtracking ends at its deadline") {
  const text::Pattern slow(text::translate_pattern(R"(\s+$)", "test"), "test", false);
  text::PatternScratch spent(std::chrono::nanoseconds(0)), enough(std::chrono::seconds(60));
  std::size_t begin = 0, end = 0;
  expect_error(Code::timeout, {"pre-tokenizer pattern"},
               [&] { slow.search(std::string(1 << 20, ' ') + "c", 0, spent, begin, end); });
  // A search in several steps finds what one would: the match here begins behind many starts that fail.
  REQUIRE(slow.search(std::string(100'000, 'b') + " ", 0, enough, begin, end));
  CHECK(begin == 100'000);
  std::string wide;
  for (int i = 0; i < 40'000; ++i) wide += "中";
  REQUIRE(slow.search(wide + " ", 0, enough, begin, end));
  CHECK(begin == 120'000);
}
