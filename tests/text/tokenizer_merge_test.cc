// Merging: the heap against the definition, and what it costs.
#include <algorithm>
#include <random>

#include "tests/catch.h"
#include "tests/text/tokenizer_fixtures.h"

using namespace dsv31;
using namespace dsv31::test;

namespace {

// A vocabulary of random merges over few letters, so that most pairs of a text compete.
text::VocabData random_vocab(std::mt19937& random, int merges) {
  std::vector<std::string> known = {"a", "b", "c", " "};
  std::vector<std::pair<std::string, std::string>> rules;
  for (int i = 0; i < merges; ++i) {
    const std::string left = known[random() % known.size()], right = known[random() % known.size()];
    if (left.size() + right.size() > 24) continue;
    rules.emplace_back(left, right);
    known.push_back(left + right);
  }
  return byte_vocab(rules);
}

std::string random_text(std::mt19937& random, std::size_t n) {
  std::string s;
  for (std::size_t i = 0; i < n; ++i) s += "aaabbc "[random() % 7];
  return s;
}

std::uint64_t total(const text::Work& w) { return w.symbols + w.lookups + w.heap_moves + w.sweeps + w.scanned; }

}  // namespace

TEST_CASE("merges of lower rank come first, the leftmost among equals") {
  const Tokenizer t = finish(byte_vocab({{"b", "c"}, {"a", "b"}, {"a", "a"}}));
  CHECK(t.encode("abc") == std::vector<Token>{'a', 256});
  CHECK(t.encode("ab") == std::vector<Token>{257});
  CHECK(t.encode("aaa") == std::vector<Token>{258, 'a'});
}

TEST_CASE("heap merging equals the definition for byte-level models, for short and long pieces") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const Tokenizer t = finish(random_vocab(random, 40));
    const std::string s = random_text(random, 1 + random() % 200);
    std::vector<Token> naive, heap;
    t.impl().pairs->encode_naive(s, naive);
    text::MergeScratch scratch;
    text::Work work;
    t.impl().pairs->encode(s, scratch, work, heap);
    REQUIRE(heap == naive);
    heap.clear();
    t.impl().pairs->encode(s, scratch, work, heap);  // now with what the first call found out
    REQUIRE(heap == naive);
    REQUIRE(t.decode(heap) == s);
  }
}

TEST_CASE("heap merging equals the definition for scores, equal ones included") {
  std::mt19937 random(8);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> tokens = {"a", "b", "c", "\u2581"};
    for (int i = 0; i < 30; ++i) {
      const std::string s = tokens[random() % tokens.size()] + tokens[random() % tokens.size()];
      // In half of the rounds spaces begin tokens and stand nowhere else, but behind a b: then text is cut at them.
      if (round % 2 == 1 && s.find("\u2581", 1) != std::string::npos && s.find("b\u2581") == std::string::npos) continue;
      if (s.size() < 30 && std::find(tokens.begin(), tokens.end(), s) == tokens.end()) tokens.push_back(s);
    }
    text::VocabData v;
    v.model = text::TokenModel::sentencepiece;
    v.space_mark = v.decode_space_mark = v.byte_fallback = true;
    for (const std::string& s : tokens) {
      v.add(s, TokenKind::normal, "test");
      v.scores.push_back(-static_cast<float>(random() % 5));
    }
    const Tokenizer t = finish(std::move(v));
    const std::string s = random_text(random, 1 + random() % 120);
    std::vector<Token> naive, heap;
    t.impl().pairs->encode_naive(s, naive);
    text::MergeScratch scratch;
    text::Work work;
    t.impl().pairs->encode(s, scratch, work, heap);
    REQUIRE(heap == naive);
    REQUIRE(t.decode(heap) == s);
  }
}

TEST_CASE("work on one piece grows as n log n, for a repeated letter and for random letters") {
  std::mt19937 random(9);
  const Tokenizer t = finish(random_vocab(random, 200));
  for (const bool repeated : {true, false}) {
    for (const int log2n : {14, 16, 18, 20}) {
      const std::size_t n = std::size_t{1} << log2n;
      text::Work work;
      const auto ids = t.impl().encode(repeated ? std::string(n, 'a') : random_text(random, n), {}, work);
      CHECK(ids.size() < n);
      CHECK(work.symbols == n);
      INFO("n " << n << ", work " << total(work));
      CHECK(total(work) < 2 * n * static_cast<std::size_t>(log2n));
    }
  }
}

TEST_CASE("ignore_merges takes a whole piece that is a token") {
  text::VocabData v = byte_vocab({{"a", "b"}});
  v.add("abc", TokenKind::normal, "test");  // no merge leads to it
  const Token abc = v.find("abc");
  text::VocabData w = v;
  w.ignore_merges = true;
  CHECK(finish(std::move(v)).encode("abc") == std::vector<Token>{256, 'c'});
  CHECK(finish(std::move(w)).encode("abc") == std::vector<Token>{abc});
}

TEST_CASE("a byte without a token is the unknown token, or nothing") {
  text::VocabData v;
  v.add("a", TokenKind::normal, "test");
  v.add("<unk>", TokenKind::unknown, "test");
  text::VocabData w = v;
  w.unknown = 1;
  CHECK(finish(std::move(v)).encode("aba") == std::vector<Token>{0, 0});
  CHECK(finish(std::move(w)).encode("aba") == std::vector<Token>{0, 1, 0});
}
