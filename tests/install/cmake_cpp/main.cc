// Uses the C++ API as a user would; catches the library's exception by its own type.
#include <cstdio>
#include <cstring>

#include "dsv31/dsv31.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    dsv31::Model::open(dsv31::Runtime({.threads = 1}), "/nowhere/at/all.gguf");
    return 3;
  } catch (const dsv31::Error& e) {
    if (e.code() != dsv31::Code::not_found) return 4;
  }
  dsv31::Runtime runtime({.threads = 2});
  dsv31::Model model = dsv31::Model::open(runtime, argv[1]);
  dsv31::Session session(model);
  session.append(
      model.tokenizer().encode(model.chat_template().render({{.role = "user", .content = "What is the capital of France?"}})));
  auto result = session.generate({.max_tokens = 64, .sampler = dsv31::SamplerOptions::greedy()});
  std::printf("%s\n", result.text.c_str());
  return std::strstr(result.text.c_str(), "Paris") != nullptr ? 0 : 5;
}
