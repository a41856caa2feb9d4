// P03: runs of 16 MiB on a stack of 64 KiB, with counted memory.
#include <pthread.h>

#include <exception>
#include <functional>

#include "tests/catch.h"
#include "tests/text/tokenizer_fixtures.h"
#include "tests/text/tokenizer_memory.h"

using namespace dsv31;
using namespace dsv31::test;

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// Runs fn on a thread with a stack of 64 KiB and rethrows what it throws.
void on_small_stack(const std::function<void()>& fn) {
  struct State {
    const std::function<void()>& fn;
    std::exception_ptr error;
  } state{fn, nullptr};
  pthread_attr_t attributes;
  REQUIRE(pthread_attr_init(&attributes) == 0);
  REQUIRE(pthread_attr_setstacksize(&attributes, 64 << 10) == 0);
  pthread_t thread;
  const auto body = [](void* p) -> void* {
    auto* s = static_cast<State*>(p);
    try {
      s->fn();
    } catch (...) {
      s->error = std::current_exception();
    }
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &attributes, body, &state) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  if (state.error) std::rethrow_exception(state.error);
}

std::string repeat(std::string_view s, std::size_t bytes) {
  std::string out;
  out.reserve(bytes);
  while (out.size() + s.size() <= bytes) out += s;
  return out;
}

// Encodes on the small stack; memory is that of the call, its result included.
std::vector<Token> encode_counted(const Tokenizer& t, const std::string& s, std::size_t& peak) {
  std::vector<Token> ids;
  on_small_stack([&] {
    const MemoryMeter meter;
    ids = t.encode(s);
    peak = meter.peak();
  });
  return ids;
}

}  // namespace

TEST_CASE("P03 16 MiB of one letter: 64 KiB of stack, at most 24 bytes of memory a byte") {
  std::vector<std::pair<std::string, std::string>> doubling;
  for (std::string s = "a"; s.size() < 64; s += s) doubling.emplace_back(s, s);
  text::VocabData v = byte_vocab(doubling);
  set_preset(v, "deepseek-v3");
  const Tokenizer t = finish(std::move(v));
  const std::string s(16 * kMiB, 'a');
  std::size_t peak = 0;
  const std::vector<Token> ids = encode_counted(t, s, peak);
  CHECK(ids.size() == 16 * kMiB / 64);
  CHECK(t.decode(ids) == s);
  CHECK(peak <= 24 * s.size());
}

TEST_CASE("P03 16 MiB of each character class through the recorded tokenizer") {
  for (const char* const unit : {"q", " ", "\n", "7", "中", "\u0301", "!", "\xFF"}) {
    const std::string s = repeat(unit, 16 * kMiB);
    std::size_t peak = 0;
    const std::vector<Token> ids = encode_counted(tiny(), s, peak);
    INFO("unit " << unit);
    CHECK(tiny().decode(ids) == s);
    CHECK(peak <= 24 * s.size());
  }
}

TEST_CASE("P03 runs through patterns that PCRE2 matches, compiled and interpreted") {
  for (const bool jit : {true, false})
    for (const char* const preset :
         {"deepseek-v3", "deepseek-llm", "deepseek-coder", "llama-bpe", "gpt-2", "default", "gpt-4o", "tekken", "qwen35"}) {
      text::VocabData v = byte_vocab({});
      set_preset(v, preset);
      const Tokenizer t = finish(std::move(v), {.scanners = false, .jit = jit});
      for (const char* const unit : {"q", "Q", " ", "\n", "7", "中", "\u0301", "!", "  x"}) {
        const std::string s = repeat(unit, kMiB / 2);
        std::size_t peak = 0;
        const std::vector<Token> ids = encode_counted(t, s, peak);
        INFO(preset << ", unit " << unit);
        REQUIRE(ids.size() == s.size());
        REQUIRE(peak <= 24 * s.size());
      }
    }
}

TEST_CASE("P03 16 MiB of letters and of spaces by scores") {
  const Tokenizer t = [] {
    const GgufBuilder b = sentencepiece_gguf({"q", "qq", "qqqq", "\u2581", "\u2581\u2581", "\u2581\u2581\u2581\u2581"});
    const std::string file = b.build();
    return Tokenizer::open(memory_reader(file.data(), file.size()));
  }();
  for (const char* const unit : {"q", " ", "\u2581", "é"}) {
    const std::string s = repeat(unit, 4 * kMiB);
    std::size_t peak = 0;
    const std::vector<Token> ids = encode_counted(t, s, peak);
    CHECK(t.decode(ids) == (std::string_view(unit) == "\u2581" ? std::string(s.size() / 3, ' ') : s));
    CHECK(peak <= 24 * s.size());
  }
}

TEST_CASE("P03 marks of alternating classes are sorted in n log n") {
  const std::string s = repeat("\u0301\u0323", kMiB);  // classes 230 and 220
  std::string out;
  on_small_stack([&] { text::append_normal_form(s, false, false, out); });
  REQUIRE(out.size() == s.size());
  CHECK(out.substr(0, 4) == "\u0323\u0323");
  CHECK(out.substr(out.size() - 4) == "\u0301\u0301");
}
