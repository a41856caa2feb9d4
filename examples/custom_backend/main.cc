// Runs a model with a backend of the host's own: its ops, the answer, and the products that the backend counted.
// usage: custom_backend MODEL QUESTION
#include <cstdio>

#include "dsv31/dsv31.h"
#include "row_backend.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: custom_backend MODEL QUESTION\n");
    return 2;
  }
  try {
    const auto backend = std::make_shared<const rows::RowBackend>();
    dsv31::RuntimeOptions options;
    options.backends = {backend};
    const dsv31::Runtime runtime(options);
    const dsv31::Model model = dsv31::Model::open(runtime, argv[1]);

    int own = 0, other = 0;
    for (const dsv31::PlanRow& row : model.execution_plan()) ++(row.backend == backend->name() ? own : other);
    std::printf("ops on '%s': %d, on built-in backends: %d\n", backend->name().data(), own, other);

    dsv31::Conversation talk(model);
    talk.add({.role = "user", .content = argv[2]});
    const dsv31::AnswerResult answer = talk.answer({.generate = {.sampler = dsv31::SamplerOptions::greedy()}});
    std::printf("%s\nproducts: %.1f million\n", answer.content.c_str(), static_cast<double>(backend->products()) / 1e6);
    return 0;
  } catch (const dsv31::Error& e) {
    std::fprintf(stderr, "custom_backend: %s\n", e.what());
    return 1;
  }
}
