// Same tokens, always: what a session computes depends on its tokens alone.
#include <cstring>
#include <map>
#include <memory>
#include <random>

#include "tests/api/fixtures.h"
#include "tests/catch.h"

using namespace dsv31;
using namespace dsv31::test;

namespace {

struct Subject {
  std::string path;
  ComputeOptions compute;
  std::size_t tokens;
};

std::vector<Subject> subjects() {
  return {{DSV31_TINY_MODEL, {}, 200},
          {random_model("llama"), {}, 300},
          {random_model("gemma3"), {}, 300},
          {random_model("qwen3_moe"), {}, 150},
          {random_model("deepseek_v3"), {}, 200},
          {random_model("deepseek_v3_bf16"), {}, 100},
          {random_model("deepseek_v32"), {}, 300},
          {random_model("deepseek_v3_fp8"), {}, 60},
          {DSV31_TINY_MODEL, {.exact = true}, 60},
          {random_model("deepseek_v2"), {.exact = true}, 100}};
}

std::vector<float> base(const Subject& s, std::span<const Token> ids) {
  return all_logits(Model::open(runtime_with(1), s.path), ids, s.compute);
}

}  // namespace

TEST_CASE("1, 2 and 3 threads and a host's executor give the same bits") {
  struct Serial final : Executor {
    int concurrency() const override { return 4; }
    void parallel_for(int count, void (*fn)(void*, int), void* arg) override {
      for (int i = count - 1; i >= 0; --i) fn(arg, i);
    }
  } host;
  for (const Subject& s : subjects()) {
    auto ids = made_tokens(s.tokens, 1, 320);
    auto want = base(s, ids);
    INFO(s.path);
    for (int threads : {2, 3}) CHECK(same_bits(all_logits(Model::open(runtime_with(threads), s.path), ids, s.compute), want));
    RuntimeOptions o;
    o.executor = &host;
    CHECK(same_bits(all_logits(Model::open(Runtime(o), s.path), ids, s.compute), want));
  }
}

TEST_CASE("prefill in chunks of 1, 7, 64 and all gives the same bits") {
  for (const Subject& s : subjects()) {
    Model model = Model::open(runtime_with(2), s.path);
    auto ids = made_tokens(s.tokens, 2, 320);
    auto want = all_logits(model, ids, s.compute);
    INFO(s.path);
    for (std::int64_t chunk : {1, 7, 64}) {
      ComputeOptions c = s.compute;
      c.chunk = chunk;
      CHECK(same_bits(all_logits(model, ids, c), want));
    }
  }
}

TEST_CASE("generic, AVX2 and AVX-512 give the same bits") {
  const auto isas = available_isas();
  for (const Subject& s : subjects()) {
    auto ids = made_tokens(std::min<std::size_t>(s.tokens, 70), 3, 320);
    std::vector<float> want = all_logits(Model::open(runtime_with(2, "generic"), s.path), ids, s.compute);
    for (const std::string& isa : isas) {
      INFO(s.path << " on " << isa);
      CHECK(same_bits(all_logits(Model::open(runtime_with(2, isa), s.path), ids, s.compute), want));
    }
  }
}

TEST_CASE("alone and beside four other sequences gives the same bits") {
  for (const Subject& s : subjects()) {
    Model model = Model::open(runtime_with(2), s.path);
    std::vector<std::vector<Token>> texts;
    for (unsigned i = 0; i < 5; ++i) texts.push_back(made_tokens(20 + 31 * i, 40 + i, 320));
    std::vector<std::vector<float>> alone;
    for (auto& t : texts) {
      Session session(model, s.compute);
      session.append(t);
      alone.emplace_back(session.logits().begin(), session.logits().end());
    }
    std::vector<Session> sessions;
    for (std::size_t i = 0; i < texts.size(); ++i) sessions.emplace_back(model, s.compute);
    std::vector<std::size_t> done(texts.size(), 0);
    // Steps of one, of a few and of many tokens, until all are through.
    for (std::size_t step = 0;
         std::any_of(done.begin(), done.end(),
                     [&](std::size_t& d) { return d < texts[static_cast<std::size_t>(&d - done.data())].size(); });
         ++step) {
      std::vector<Advance> items;
      for (std::size_t i = 0; i < texts.size(); ++i) {
        std::size_t n = std::min(texts[i].size() - done[i], step % 3 == 0 ? std::size_t{1} : 3 * i + step);
        if (n == 0) continue;
        items.push_back({&sessions[i], std::span<const Token>(texts[i]).subspan(done[i], n)});
        done[i] += n;
      }
      advance_all(items);
    }
    for (std::size_t i = 0; i < texts.size(); ++i) {
      INFO(s.path << " sequence " << i);
      CHECK(same_bits(sessions[i].logits(), alone[i]));
    }
  }
}

TEST_CASE("a random walk of 10,000 steps stays equal to a cache-free computation") {
  for (const char* name : {"llama", "gemma3", "deepseek_v3", "deepseek_v32"}) {
    Model model = Model::open(runtime_with(2), random_model(name));
    std::mt19937 rng(17);
    std::vector<std::unique_ptr<Session>> all;
    all.push_back(std::make_unique<Session>(model));
    auto check = [&](Session& s) {
      if (s.size() == 0) return;
      Session fresh(model);
      fresh.append(s.tokens());
      INFO(name << ", " << s.size() << " tokens");
      REQUIRE(same_bits(s.logits(), fresh.logits()));
    };
    const int steps = std::string(name) == "llama" ? 10000 : 2000;
    for (int step = 0; step < steps; ++step) {
      std::size_t which = rng() % all.size();
      Session& s = *all[which];
      switch (rng() % 8) {
        case 0:
        case 1:
        case 2:
        case 3: {
          std::size_t n = rng() % 10 == 0 ? rng() % 120 : 1 + rng() % 4;
          auto more = made_tokens(n, rng(), 320);
          if (s.size() + static_cast<std::int64_t>(n) <= 700) s.append(more);
          break;
        }
        case 4:
          if (all.size() < 5) all.push_back(std::make_unique<Session>(s.fork()));
          break;
        case 5:
          s.rewind(s.size() - static_cast<std::int64_t>(rng() % static_cast<unsigned>(std::min<std::int64_t>(s.size(), 80) + 1)));
          break;
        case 6: {
          auto target = std::vector<Token>(s.tokens().begin(), s.tokens().end());
          if (!target.empty()) target[rng() % target.size()] = static_cast<Token>(rng() % 320);
          target.resize(std::min<std::size_t>(target.size(), 300));
          s.sync(target);
          break;
        }
        case 7:
          if (all.size() > 1) all.erase(all.begin() + static_cast<std::ptrdiff_t>(which));
          break;
      }
      if (step % 50 == 0 || (step % 5 == 0 && all[0]->size() < 40)) check(*all[rng() % all.size()]);
    }
    for (auto& s : all) check(*s);
  }
}

TEST_CASE("sampled text is the same for any thread count and after save points") {
  std::vector<Token> want;
  for (int threads : {1, 3}) {
    Model model = Model::open(runtime_with(threads), DSV31_TINY_MODEL);
    Session session(model);
    session.append(made_tokens(30, 8, 320));
    GenerateOptions o;
    o.max_tokens = 60;
    o.ignore_end_of_generation = true;
    o.sampler.seed = 42;
    auto whole = session.generate(o).tokens;
    if (want.empty()) want = whole;
    CHECK(whole == want);
    session.rewind(30 + 25);  // generating in two parts is the same text
    o.max_tokens = 35;
    auto rest = session.generate(o).tokens;
    CHECK(std::vector<Token>(want.begin() + 25, want.end()) == rest);
  }
}
