// The smallest program: a model, a prompt, a completion.  usage: minimal MODEL PROMPT
#include <cstdio>
#include <string_view>

#include "dsv31/dsv31.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: minimal MODEL PROMPT\n");
    return 2;
  }
  try {
    dsv31::Runtime runtime;
    dsv31::Model model = dsv31::Model::open(runtime, argv[1]);
    const dsv31::Tokenizer& tokenizer = model.tokenizer();

    dsv31::Session session(model);
    session.append(tokenizer.encode(argv[2], {.bos = tokenizer.adds_bos()}));
    session.generate({.max_tokens = 64, .sampler = dsv31::SamplerOptions::greedy()}, [](const dsv31::TokenEvent& event) {
      std::fwrite(event.text.data(), 1, event.text.size(), stdout);
      return true;
    });
    std::fputc('\n', stdout);
    return 0;
  } catch (const dsv31::Error& e) {
    std::fprintf(stderr, "minimal: %s\n", e.what());
    return 1;
  }
}
