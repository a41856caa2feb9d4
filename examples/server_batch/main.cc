// Many requests in one process: threads take them from a queue, each answers in a session of its own, and all share one model.
// The instructions that every request begins with are computed once; sessions are forks of that and share its cache. usage:
// server_batch MODEL [THREADS]
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dsv31/dsv31.h"

namespace {

struct Request {
  std::string question, answer{}, error{};
  std::int64_t reused = 0;  // tokens of the prompt that were not computed again
};

std::vector<dsv31::Token> prompt_of(const dsv31::Model& model, const std::string& question) {
  const std::vector<dsv31::Message> messages = {{.role = "system", .content = "You answer the questions of a quiz, briefly."},
                                                {.role = "user", .content = question}};
  return model.tokenizer().encode(model.chat_template().render(messages, {.thinking = false}));
}

void answer(const dsv31::Session& instructions, Request& request) {
  try {
    dsv31::Session session = instructions.fork();
    request.reused = session.sync(prompt_of(session.model(), request.question));
    dsv31::GenerateOptions options{.max_tokens = 64, .sampler = dsv31::SamplerOptions::greedy()};
    request.answer = session.generate(options).text;
  } catch (const dsv31::Error& e) {  // of this request alone
    request.error = e.what();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: server_batch MODEL [THREADS]\n");
    return 2;
  }
  const int threads = argc == 3 ? std::atoi(argv[2]) : 3;
  try {
    const dsv31::Runtime runtime;
    const dsv31::Model model = dsv31::Model::open(runtime, argv[1]);
    std::vector<Request> requests;
    for (const char* country : {"France", "Japan", "Italy", "Spain"})
      requests.push_back({"What is the capital of " + std::string(country) + "?"});
    for (const char* sum : {"17 + 25", "30 + 41"}) requests.push_back({"What is " + std::string(sum) + "?"});

    // What two different prompts begin with in common.
    std::vector<dsv31::Token> common = prompt_of(model, "A"), other = prompt_of(model, "B");
    std::size_t n = 0;
    while (n < common.size() && n < other.size() && common[n] == other[n]) ++n;
    common.resize(n);
    dsv31::Session instructions(model, {.context = 256});
    instructions.append(common);

    std::mutex forking;  // a session is used by one thread at a time, also as the origin of forks
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> workers;
    for (int i = 0; i < threads; ++i)
      workers.emplace_back([&] {
        dsv31::Session own = [&] {
          std::lock_guard lock(forking);
          return instructions.fork();
        }();
        for (std::size_t r = next++; r < requests.size(); r = next++) answer(own, requests[r]);
      });
    for (std::thread& worker : workers) worker.join();

    int failed = 0;
    for (const Request& r : requests) {
      std::printf("%s %s%s\n", r.question.c_str(), r.answer.c_str(), r.error.c_str());
      failed += !r.error.empty() || r.reused < static_cast<std::int64_t>(n);
    }
    std::printf("%zu requests, %d failed; each began with %zu tokens of the shared cache\n", requests.size(), failed, n);
    return failed == 0 ? 0 : 1;
  } catch (const dsv31::Error& e) {
    std::fprintf(stderr, "server_batch: %s\n", e.what());
    return 1;
  }
}
