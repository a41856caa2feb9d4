// What decoding takes from the heap, counted by the operator new of this program: nothing a token.
#include "tests/api/fixtures.h"
#include "tests/catch.h"
#include "tests/io/allocations.h"

using namespace dsv31;
using namespace dsv31::test;

TEST_CASE("computing a token and reading its logits allocates nothing but room for 64 tokens at a time") {
  for (const char* name : {"llama", "gemma3", "deepseek_v3", "deepseek_v32", "qwen3_moe"}) {
    INFO(name);
    Model model = Model::open(runtime_with(2), random_model(name));
    Session s(model, {.context = 512});
    const auto ids = made_tokens(320, 1, model.info().vocab_size);
    s.append(std::span(ids).first(70));
    s.logits();
    int allocating = 0;
    for (std::size_t i = 70; i < ids.size(); ++i) {
      const AllocationMeter meter;
      s.append(std::span(ids).subspan(i, 1));
      s.logits();
      allocating += meter.used().calls > 0;
    }
    CHECK(allocating <= 6);  // cache blocks at 128, 192 and 256 tokens; the list of tokens doubles at 70, 140 and 280
  }
}

TEST_CASE("a generated token allocates nothing: twice the tokens take no more calls but for what holds the result") {
  Model model = Model::open(runtime_with(2), DSV31_TINY_MODEL);
  const auto calls = [&](std::int64_t n) {
    Session s(model, {.context = 512});
    s.append(made_tokens(66, 1, 320));
    std::size_t bytes = 0;
    const AllocationMeter meter;
    s.generate({.max_tokens = n, .sampler = SamplerOptions::greedy(), .ignore_end_of_generation = true},
               [&](const TokenEvent& e) { return bytes += e.text.size(), true; });
    return meter.used().calls;
  };
  calls(8);
  const auto few = calls(8), many = calls(56);  // in one block of 64 positions
  CHECK(many - few <= 2 * 3 + 6);               // tokens and text of the result double a few times
}
