// What the host keeps: its threads, files, memory, output streams and signals.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "tests/api/fixtures.h"
#include "tests/catch.h"
#include "tests/expect_error.h"

using namespace dsv31;
using namespace dsv31::test;

namespace {

int entries(const char* path) {
  int n = 0;
  if (DIR* d = opendir(path)) {
    while (readdir(d)) ++n;
    closedir(d);
  }
  return n;
}
int threads() { return entries("/proc/self/task"); }
int descriptors() { return entries("/proc/self/fd"); }

// Lines of /proc/self/maps that name a model file.
int mapped_models() {
  std::ifstream maps("/proc/self/maps");
  int n = 0;
  for (std::string line; std::getline(maps, line);)
    if (line.find(".gguf") != std::string::npos || line.find(".safetensors") != std::string::npos) ++n;
  return n;
}

[[maybe_unused]] long anonymous_kib() {  // sanitizers keep what is freed, so their builds do not ask
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("RssAnon:", 0) == 0) return std::stol(line.substr(8));
  return -1;
}

void open_and_use() {
  Model model = Model::open(runtime_with(2), random_model("llama"));
  Session s(model);
  s.append(made_tokens(20, 1, 320));
  Session f = s.fork();
  f.append(made_tokens(2, 2, 320));
}

}  // namespace

TEST_CASE("no thread, descriptor or mapping is left after the last object is gone") {
  open_and_use();
  int t = threads(), d = descriptors();
  {
    Model model = Model::open(runtime_with(3), DSV31_TINY_MODEL);
    CHECK(threads() == t + 2);
    CHECK(descriptors() == d);  // files are closed once a model is open
    CHECK(mapped_models() == 0);
    Session s(model);
    s.append(made_tokens(20, 1, 320));
  }
  CHECK(threads() == t);
  CHECK(descriptors() == d);
  CHECK(mapped_models() == 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("1,000 rounds of open and close grow the process by less than 1 MiB") {
  for (int i = 0; i < 50; ++i) open_and_use();
  long before = anonymous_kib();
  REQUIRE(before > 0);
  for (int i = 0; i < 1000; ++i) open_and_use();
  CHECK(anonymous_kib() - before < 1024);
}
#endif

TEST_CASE("the library writes nothing to stdout or stderr and installs no signal handler") {
  int pipe_fds[2];
  REQUIRE(pipe(pipe_fds) == 0);
  fflush(stdout);
  fflush(stderr);
  int out = dup(1), err = dup(2);
  struct sigaction before[NSIG] = {}, after[NSIG] = {};  // two of the numbers are the C library's own and stay empty
  for (int i = 1; i < NSIG; ++i) sigaction(i, nullptr, &before[i]);
  dup2(pipe_fds[1], 1);
  dup2(pipe_fds[1], 2);
  bool failed = false;
  try {
    Model model = Model::open(runtime_with(2), DSV31_TINY_MODEL);
    Session s(model);
    s.append(made_tokens(20, 1, 320));
    s.generate({.max_tokens = 5});
    try {
      Model::open(runtime_with(1), "/nowhere/at/all.gguf");
    } catch (const Error&) {
    }
  } catch (...) {
    failed = true;
  }
  fflush(stdout);
  fflush(stderr);
  dup2(out, 1);
  dup2(err, 2);
  close(out);
  close(err);
  for (int i = 1; i < NSIG; ++i) sigaction(i, nullptr, &after[i]);
  close(pipe_fds[1]);
  char byte;
  CHECK(read(pipe_fds[0], &byte, 1) == 0);
  close(pipe_fds[0]);
  CHECK_FALSE(failed);
  for (int i = 1; i < NSIG; ++i) CHECK(before[i].sa_handler == after[i].sa_handler);
}

TEST_CASE("the plan is known before anything is allocated, and the budget holds") {
  Runtime plain = runtime_with(1);
  ComputeOptions c{.chunk = 64, .context = 256};
  MemoryPlan plan = Model::plan(plain, DSV31_TINY_MODEL, c);
  CHECK(plain.memory().peak == 0);
  CHECK(plan.total == plan.weights + plan.cache + plan.scratch);
  {
    Model model = Model::open(plain, DSV31_TINY_MODEL);
    CHECK(plain.memory().weights == plan.weights);
    Session s(model, c);
    s.append(made_tokens(256, 1, 320));
    CHECK(plain.memory().cache <= plan.cache);
    CHECK(plain.memory().scratch <= plan.scratch);
    CHECK(model.memory(c).total == plan.total);
  }
  CHECK(plain.memory().weights == 0);
  CHECK(plain.memory().cache == 0);
  CHECK(plain.memory().scratch == 0);

  RuntimeOptions o;
  o.threads = 1;
  o.memory_budget = plan.weights - 1;
  expect_error(Code::no_memory, {"model.weights", std::to_string(plan.weights)},
               [&] { Model::open(Runtime(o), DSV31_TINY_MODEL); });
  o.memory_budget = plan.total + (1 << 20);  // and the staging of the loader
  Runtime enough(o);
  Model model = Model::open(enough, DSV31_TINY_MODEL);
  Session s(model, c), second(model, c);
  s.append(made_tokens(256, 1, 320));
  CHECK(enough.memory().peak <= o.memory_budget);
}

TEST_CASE("a budget too small for the cache is no_memory; the session works on once there is room") {
  Runtime plain = runtime_with(1);
  ComputeOptions c{.chunk = 64, .context = 2048};
  MemoryPlan plan = Model::plan(plain, DSV31_TINY_MODEL, c);
  RuntimeOptions o;
  o.threads = 1;
  o.memory_budget = plan.weights + plan.scratch + plan.cache / 2;
  Model model = Model::open(Runtime(o), DSV31_TINY_MODEL);
  Session keep(model, c);
  keep.append(made_tokens(100, 1, 320));
  Session s(model, c);
  expect_error(Code::no_memory, {"session.cache"}, [&] { s.append(made_tokens(2048, 1, 320)); });
  CHECK(s.size() % 64 == 0);
  s.rewind(0);
  s.append(made_tokens(100, 1, 320));
  CHECK(same_bits(s.logits(), keep.logits()));
}

TEST_CASE("the host's allocator gets everything back; a refusal anywhere is no_memory and leaves nothing") {
  struct Host {
    std::size_t live = 0;
    int calls = 0, refuse_at = -1;
  } host;
  RuntimeOptions o;
  o.threads = 1;
  o.allocator = {[](void* user, std::size_t n, std::size_t align) -> void* {
                   auto* h = static_cast<Host*>(user);
                   if (h->calls++ == h->refuse_at) return nullptr;
                   h->live += n;
                   return std::aligned_alloc(align, (n + align - 1) / align * align);
                 },
                 [](void* user, void* p, std::size_t n) {
                   static_cast<Host*>(user)->live -= n;
                   std::free(p);
                 },
                 &host};
  auto work = [&] {
    Model model = Model::open(Runtime(o), random_model("gemma3"));
    Session s(model);
    s.append(made_tokens(100, 1, 320));
    Session f = s.fork();
    f.append(made_tokens(100, 2, 320));
  };
  work();
  const int total = host.calls;
  CHECK(host.live == 0);
  CHECK(total >= 4);
  for (int n = 0; n < total; ++n) {
    host.calls = 0;
    host.refuse_at = n;
    expect_error(Code::no_memory, {}, work);
    CHECK(host.live == 0);
  }
}

TEST_CASE("loading reports progress that never falls, and can be cancelled by it or by a token") {
  std::uint64_t last = 0, of = 0;
  Stage stage = Stage::read_metadata;
  auto watch = [&](Stage s, std::uint64_t done, std::uint64_t total) {
    if (s != stage) last = 0;
    stage = s;
    CHECK(done >= last);
    CHECK(done <= total);
    last = done;
    of = total;
    return true;
  };
  Model model = Model::open(runtime_with(2), DSV31_TINY_MODEL, {.progress = watch});
  CHECK(stage == Stage::read_weights);
  CHECK(last > 0);  // how often in between is up to how busy the workers are; the end is always told
  CHECK(last == of);
  int d = descriptors();
  expect_error(Code::cancelled, {}, [] {
    Model::open(runtime_with(2), DSV31_TINY_MODEL,
                {.progress = [](Stage s, std::uint64_t, std::uint64_t) { return s != Stage::read_weights; }});
  });
  CancelToken token;
  token.cancel();
  expect_error(Code::cancelled, {}, [&] { Model::open(runtime_with(2), DSV31_TINY_MODEL, {.cancel = &token}); });
  CHECK(descriptors() == d);
}

TEST_CASE("a model from the host's own bytes equals the file's") {
  std::ifstream file(DSV31_TINY_MODEL, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  std::string data = bytes.str();
  Model from_memory = Model::open(runtime_with(1), memory_reader(data.data(), data.size()));
  Model from_file = Model::open(runtime_with(1), DSV31_TINY_MODEL);
  auto ids = made_tokens(20, 1, 320);
  CHECK(same_bits(all_logits(from_memory, ids, {}), all_logits(from_file, ids, {})));
  Model from_folder = Model::open(runtime_with(1), open_folder(random_model("qwen2")), "");
  CHECK(from_folder.info().architecture == "qwen2");
}

TEST_CASE("G19 a model whose weights are not finite is a backend error, not a random token") {
  std::ifstream file(DSV31_TINY_MODEL, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  std::string data = bytes.str();
  // The scales of the last tensor's blocks become NaN (0x7e00).
  for (std::size_t at = data.size() - 34 * 200; at + 34 <= data.size(); at += 34) data[at] = 0, data[at + 1] = 0x7e;
  Model model = Model::open(runtime_with(1), memory_reader(data.data(), data.size()));
  Session s(model);
  expect_error(Code::backend, {"not finite", "layer 3"}, [&] {
    s.append(made_tokens(5, 1, 320));
    s.generate({.max_tokens = 3});
  });
}
