// What a process takes that opens a real model and generates: its own pages (RssAnon), at their peak, against what was promised
// beforehand. Each measurement runs in a process of its own.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "tests/api/fixtures.h"
#include "tests/catch.h"

using namespace dsv31;
using namespace dsv31::test;

namespace {

const char* const kFiles[] = {"SmolLM2-135M-Instruct.Q4_1.gguf", "qwen2.5-coder-0.5b-instruct.gguf", "gemma3-270m-Q4_K_M.gguf"};

std::int64_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("RssAnon:", 0) == 0) return 1024 * std::stoll(line.substr(8));
  return -1;
}

struct Measured {
  std::int64_t peak = 0, weights = 0, cache = 0, scratch = 0, vocabulary = 0;  // bytes
  std::int64_t mapped = 0;
  std::int64_t allowed() const { return weights + cache + scratch + vocabulary + (16 << 20); }
};

Measured open_and_generate(const std::string& path) {
  Measured m;
  const std::int64_t before = anonymous_bytes();
  std::atomic<bool> done{false};
  std::atomic<std::int64_t> peak{0};
  std::thread sampler([&] {
    while (!done.load()) {
      peak.store(std::max(peak.load(), anonymous_bytes()));
      std::this_thread::yield();
    }
  });
  {
    Model model = Model::open(runtime_with(2), path);
    const ComputeOptions compute{.context = 1024};
    Session s(model, compute);
    s.append(made_tokens(300, 1, model.info().vocab_size));
    s.generate({.max_tokens = 32, .ignore_end_of_generation = true}, [&](const TokenEvent&) {
      peak.store(std::max(peak.load(), anonymous_bytes()));
      return true;
    });
    done.store(true);
    sampler.join();
    const MemoryPlan plan = model.memory(compute);
    m.weights = static_cast<std::int64_t>(plan.weights);
    m.mapped = static_cast<std::int64_t>(plan.mapped);
    m.cache = static_cast<std::int64_t>(plan.cache);
    m.scratch = static_cast<std::int64_t>(plan.scratch);
    const Tokenizer& t = model.tokenizer();
    for (Token id = 0; id < static_cast<Token>(t.vocab_size()); ++id)
      m.vocabulary += 128 + static_cast<std::int64_t>(t.piece(id).size());
  }
  m.peak = peak.load() - before;
  return m;
}

Measured in_child(const std::string& path) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  std::cout.flush();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    Measured m;
    try {
      m = open_and_generate(path);
    } catch (...) {
    }
    const bool sent = write(ends[1], &m, sizeof m) == sizeof m;
    _exit(sent ? 0 : 1);
  }
  Measured m;
  close(ends[1]);
  const bool received = read(ends[0], &m, sizeof m) == sizeof m;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  REQUIRE(received);
  REQUIRE(m.peak > 0);
  return m;
}

void report(const std::string& what, const Measured& m) {
  const auto mib = [](std::int64_t n) { return static_cast<double>(n) / (1 << 20); };
  std::cout << what << ": peak RssAnon " << mib(m.peak) << " MiB, allowed " << mib(m.allowed()) << " = weights " << mib(m.weights)
            << " + cache " << mib(m.cache) << " + scratch " << mib(m.scratch) << " + vocabulary " << mib(m.vocabulary)
            << " + 16; mapped " << mib(m.mapped) << "\n";
}

}  // namespace

TEST_CASE("peak memory is what the plan says, the vocabulary and 16 MiB") {
  std::string folder = (std::filesystem::temp_directory_path() / "dsv31-memory-XXXXXX").string();
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  for (const char* file : kFiles) {
    INFO(file);
    const std::string path = std::string(DSV31_MODELS) + "/" + file, packed = folder + "/packed.dsv31";
    const Measured source = in_child(path);
    report(file, source);
    CHECK(source.peak <= source.allowed());
    CHECK(source.mapped == 0);
    Model::pack(runtime_with(0), path, packed);
    const Measured mapped = in_child(packed);
    report(std::string(file) + ", packed", mapped);
    CHECK(mapped.peak <= mapped.allowed());
    CHECK(mapped.weights + mapped.mapped >= source.weights);
    CHECK(mapped.weights < (8 << 20));  // vectors; the rest is mapped
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}
