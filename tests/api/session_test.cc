#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/api/fixtures.h"
#include "tests/catch.h"
#include "tests/expect_error.h"

using namespace dsv31;
using namespace dsv31::test;

namespace {

Model llama(int threads = 2) { return Model::open(runtime_with(threads), random_model("llama")); }

}  // namespace

TEST_CASE("P05 token ids outside the vocabulary are arguments and nothing is added") {
  Model model = llama();
  Session s(model);
  for (Token bad : {-1, 320, INT32_MAX, INT32_MIN}) {
    expect_error(Code::argument, {"session.append", "at index 1", "0 to 319"}, [&] { s.append(std::vector<Token>{5, bad}); });
    CHECK(s.size() == 0);
  }
  s.append(std::vector<Token>{0, 319});
  CHECK(s.size() == 2);
}

TEST_CASE("P04 context - 1, context, + 1 and x 10 tokens: the last two are limits that name both counts") {
  Model model = llama();
  ComputeOptions c{.context = 100};
  for (std::size_t n : {99u, 100u}) {
    Session s(model, c);
    s.append(made_tokens(n, 1, 320));
    CHECK(s.size() == static_cast<std::int64_t>(n));
  }
  for (std::size_t n : {101u, 1000u}) {
    Session s(model, c);
    expect_error(Code::limit, {"got " + std::to_string(n) + " tokens", "at most 100"}, [&] { s.append(made_tokens(n, 1, 320)); });
    CHECK(s.size() == 0);
  }
}

TEST_CASE("compute options out of range are arguments") {
  Model model = llama();
  expect_error(Code::argument, {"compute.chunk", "got 0"}, [&] { Session s(model, {.chunk = 0}); });
  expect_error(Code::argument, {"compute.chunk", "got 4097"}, [&] { Session s(model, {.chunk = 4097}); });
  expect_error(Code::argument, {"compute.context", "got -1"}, [&] { Session s(model, {.context = -1}); });
}

TEST_CASE("logits of an empty timeline are an argument; after rewind they are computed again") {
  Model model = llama();
  Session s(model);
  expect_error(Code::argument, {"session.logits"}, [&] { s.logits(); });
  s.append(made_tokens(20, 1, 320));
  std::vector<float> at20(s.logits().begin(), s.logits().end());
  s.append(made_tokens(5, 2, 320));
  s.rewind(20);
  CHECK(s.size() == 20);
  CHECK(same_bits(s.logits(), at20));
  expect_error(Code::argument, {"session.rewind", "got 21"}, [&] { s.rewind(21); });
  expect_error(Code::argument, {"session.rewind", "got -1"}, [&] { s.rewind(-1); });
  s.rewind(0);
  CHECK(s.size() == 0);
}

TEST_CASE("sync reuses the common prefix and computes the rest") {
  Model model = llama();
  Session s(model);
  auto a = made_tokens(100, 1, 320);
  CHECK(s.sync(a) == 0);
  auto b = a;
  b[60] = (b[60] + 1) % 320;
  b.resize(90);
  CHECK(s.sync(b) == 60);
  Session fresh(model);
  fresh.append(b);
  CHECK(same_bits(s.logits(), fresh.logits()));
  CHECK(s.sync(b) == 90);
  CHECK(same_bits(s.logits(), fresh.logits()));
}

TEST_CASE("a fork goes its own way") {
  Model model = llama();
  Session a(model);
  a.append(made_tokens(70, 1, 320));
  Session b = a.fork();
  CHECK(same_bits(a.logits(), b.logits()));
  b.append(made_tokens(3, 2, 320));
  a.append(made_tokens(3, 3, 320));
  Session fresh(model);
  fresh.append(made_tokens(70, 1, 320));
  fresh.append(made_tokens(3, 3, 320));
  CHECK(same_bits(a.logits(), fresh.logits()));
}

TEST_CASE("cancel: a set token leaves the session as it was; progress can cancel between chunks") {
  Model model = llama();
  Session s(model, {.chunk = 32});
  s.append(made_tokens(10, 1, 320));
  std::vector<float> before(s.logits().begin(), s.logits().end());
  CancelToken token;
  token.cancel();
  expect_error(Code::cancelled, {}, [&] { s.append(made_tokens(200, 2, 320), {.cancel = &token}); });
  CHECK(s.size() == 10);
  CHECK(same_bits(s.logits(), before));
  int calls = 0;
  auto stop_at_third = [&](Stage stage, std::uint64_t done, std::uint64_t total) {
    CHECK(stage == Stage::prefill);
    CHECK(total == 200);
    CHECK(done == static_cast<std::uint64_t>(32 * calls));
    return ++calls < 3;
  };
  expect_error(Code::cancelled, {}, [&] { s.append(made_tokens(200, 2, 320), {.progress = stop_at_third}); });
  CHECK(s.size() == 10 + 64);  // the complete chunks stay
  Session fresh(model);
  fresh.append(made_tokens(10, 1, 320));
  auto more = made_tokens(200, 2, 320);
  fresh.append(std::span<const Token>(more).first(64));
  CHECK(same_bits(s.logits(), fresh.logits()));
}

TEST_CASE("cancel from another thread at any moment leaves a session that computes the right thing") {
  Model model = llama();
  auto ids = made_tokens(600, 4, 320);
  Session want(model);
  want.append(ids);
  for (int round = 0; round < 40; ++round) {
    Session s(model, {.chunk = 64});
    CancelToken token;
    std::thread killer([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
      token.cancel();
    });
    try {
      s.append(ids, {.cancel = &token});
    } catch (const Error& e) {
      CHECK(e.code() == Code::cancelled);
    }
    killer.join();
    CHECK(s.size() % 64 % 600 % 64 == (s.size() == 600 ? 600 % 64 : 0));
    s.append(std::span<const Token>(ids).subspan(static_cast<std::size_t>(s.size())));
    REQUIRE(same_bits(s.logits(), want.logits()));
  }
}

TEST_CASE("advance_all refuses a null session, a session twice and two models, and changes nothing") {
  Model model = llama(), other = llama();
  Session a(model), b(model), c(other);
  auto ids = made_tokens(5, 1, 320);
  auto run = [&](std::vector<Advance> items) { advance_all(items); };
  expect_error(Code::argument, {"advance", "index 1"}, [&] { run({{&a, ids}, {nullptr, ids}}); });
  expect_error(Code::argument, {"advance", "index 0 and 1"}, [&] { run({{&a, ids}, {&a, ids}}); });
  expect_error(Code::argument, {"advance", "index 1"}, [&] { run({{&a, ids}, {&c, ids}}); });
  std::vector<Token> bad{1, 999};
  expect_error(Code::argument, {"advance"}, [&] { run({{&a, ids}, {&b, bad}}); });
  CHECK(a.size() == 0);
  CHECK(b.size() == 0);
  CancelToken token;
  token.cancel();
  std::vector<Advance> items{{&a, ids}, {&b, ids}};
  expect_error(Code::cancelled, {}, [&] { advance_all(items, &token); });
  CHECK(a.size() == 0);
  run({{&a, ids}, {&b, ids}});
  CHECK(a.size() == 5);
  CHECK(same_bits(a.logits(), b.logits()));
}

TEST_CASE("sessions of one model on several threads compute the right thing") {
  Model model = llama();
  std::vector<std::vector<float>> want;
  for (unsigned i = 0; i < 4; ++i) {
    Session s(model);
    s.append(made_tokens(150, i, 320));
    want.emplace_back(s.logits().begin(), s.logits().end());
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 5; ++round) {
        Session s(model);
        auto ids = made_tokens(150, i, 320);
        for (std::size_t k = 0; k < ids.size(); k += 30) s.append(std::span<const Token>(ids).subspan(k, 30));
        Session f = s.fork();
        if (!same_bits(s.logits(), want[i]) || !same_bits(f.logits(), want[i])) ++wrong;
      }
    });
  for (auto& t : threads) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("a session keeps its model and its runtime alive") {
  auto make = [] {
    Model model = llama();
    return Session(model);
  };
  Session s = make();
  s.append(made_tokens(10, 1, 320));
  CHECK(s.logits().size() == 320);
  CHECK(s.model().info().architecture == "llama");
}

TEST_CASE("the plan names a backend and a kernel for every op, and the bytes of all weights") {
  Model model = Model::open(runtime_with(1), DSV31_TINY_MODEL);
  auto plan = model.execution_plan();
  std::uint64_t bytes = 0;
  for (auto& row : plan) {
    CHECK_FALSE(row.backend.empty());
    CHECK_FALSE(row.kernel.empty());
    bytes += row.bytes;
  }
  CHECK(bytes > 7'000'000);
  CHECK(bytes <= model.info().packed_bytes);
  CHECK(static_cast<double>(model.info().packed_bytes) <= 1.06 * static_cast<double>(model.info().weight_bytes));
  CHECK(std::any_of(plan.begin(), plan.end(), [](auto& row) { return row.op == "embed"; }));
  CHECK(plan.back().op == "head");
}

TEST_CASE("a backend that is preferred is used; an unknown one and an unknown isa are unsupported") {
  Model model = Model::open(runtime_with(1, "", "reference"), random_model("qwen2"));
  for (auto& row : model.execution_plan()) CHECK(row.backend == "reference");
  expect_error(Code::unsupported, {"runtime.backend", "reference"}, [] { runtime_with(1, "", "quantum"); });
  expect_error(Code::unsupported, {"isa"}, [] { runtime_with(1, "z80"); });
  expect_error(Code::argument, {"runtime.threads"}, [] { runtime_with(-1); });
}
