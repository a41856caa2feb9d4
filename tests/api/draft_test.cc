// Drafts: the layer's numbers against the reference, and the promise that drafts decide how fast tokens come and never which.
#include <cmath>
#include <map>
#include <random>

#include "lib/session/drafter.h"
#include "tests/api/fixtures.h"
#include "tests/catch.h"
#include "tests/expect_error.h"

using namespace dsv31;
using namespace dsv31::test;

namespace {

Model with_mtp(const std::string& path = random_model("deepseek_v3_mtp"), const std::string& backend = {}) {
  return Model::open(runtime_with(2, "", backend), path, {.mtp = true});
}

struct Way {
  const char* name;
  Draft draft;
  bool gated;
};
constexpr Way kWays[] = {{"mtp", Draft::mtp, false},
                         {"mtp gated", Draft::mtp, true},
                         {"ngram", Draft::ngram, false},
                         {"ngram gated", Draft::ngram, true}};

GenerateOptions options_of(const Way& way, const SamplerOptions& sampler, unsigned salt) {
  GenerateOptions o{.max_tokens = 24,
                    .sampler = sampler,
                    .ignore_end_of_generation = true,
                    .draft = way.draft,
                    .draft_max = 1 + static_cast<int>(salt % 4)};
  o.draft_cost = salt % 3 == 0 ? 0 : 0.1;
  if (way.gated)
    o.draft_gate = [rng = std::mt19937(salt), most = o.draft_max](std::int64_t) mutable {
      return static_cast<int>(rng() % static_cast<unsigned>(most + 1));
    };
  return o;
}

std::int64_t accepted(const GenerateResult& r) {
  std::int64_t n = 0;
  for (const DraftCount& d : r.drafts.positions) n += d.accepted;
  return n;
}

// Four tokens are left to choose from, so that a layer of random weights is right now and then.
SamplerOptions few(std::uint64_t seed, float temperature) {
  SamplerOptions o;
  o.seed = seed;
  o.temperature = temperature;
  for (Token t = 0; t < 320; ++t)
    if (t % 80 != 7) o.logit_bias.emplace_back(t, -INFINITY);
  return o;
}

}  // namespace

TEST_CASE("exact logits of the draft layer equal the recorded ones") {
  Golden golden(random_model("deepseek_v3_mtp") + "/golden.safetensors");
  for (const char* backend : {"reference", ""}) {
    Model model = with_mtp(random_model("deepseek_v3_mtp"), backend);
    for (int i = 0; i < 3; ++i) {
      const std::string at = std::to_string(i);
      for (std::int64_t chunk : {512, 7}) {
        Session session(model, {.exact = true, .chunk = chunk});
        std::vector<float> got;
        std::int64_t next = 0;
        session.append(golden.ids(at + ".input_ids"), {.draft_sink = [&](std::int64_t first, std::span<const float> row) {
                         CHECK(first == next++);
                         got.insert(got.end(), row.begin(), row.end());
                       }});
        auto want = golden.floats(at + ".mtp_logits");
        INFO("prompt " << i << " on '" << backend << "', chunk " << chunk << ": max difference " << max_difference(got, want)
                       << " of " << max_abs(want));
        CHECK(max_difference(got, want) <= 1e-4 * max_abs(want));
      }
    }
  }
}

TEST_CASE("the trunk of a model with its draft layer has the bits of the trunk alone") {
  auto ids = made_tokens(150, 8, 320);
  Model plain = Model::open(runtime_with(2), random_model("deepseek_v3_mtp"));
  CHECK(same_bits(all_logits(with_mtp(), ids, {}), all_logits(plain, ids, {})));
}

TEST_CASE("tokens are the same with drafts on, off and randomly gated, and so is what comes after") {
  Model model = with_mtp(), plain = Model::open(runtime_with(2), random_model("deepseek_v3_mtp"));
  std::map<std::string, std::int64_t> right;
  for (unsigned salt = 0; salt < 40; ++salt) {
    auto prompt = made_tokens(1 + salt * 5 % 90, salt, 320);
    SamplerOptions sampler = salt % 2 == 0 ? few(salt, salt % 4 == 0 ? 0.0f : 1.0f) : SamplerOptions::greedy();
    if (salt % 5 == 0)
      sampler = SamplerOptions{.seed = salt,
                               .temperature = 1,
                               .top_k = 0,
                               .top_p = 1,
                               .min_p = 0,
                               .repeat_penalty = 1.2f,
                               .mirostat = salt % 10 == 0 ? 2 : 0};
    Session base(plain);
    base.append(prompt);
    auto want = base.generate({.max_tokens = 24, .sampler = sampler, .ignore_end_of_generation = true});
    CHECK(want.drafts.positions.empty());
    for (const Way& way : kWays) {
      INFO(way.name << " salt " << salt);
      Session session(model, {.chunk = salt % 7 == 0 ? 2 : 512});
      session.append(prompt);
      auto got = session.generate(options_of(way, sampler, salt));
      CHECK(got.tokens == want.tokens);
      CHECK(session.size() == base.size());
      CHECK(same_bits(session.logits(), base.logits()));
      CHECK(got.steps + accepted(got) >= static_cast<std::int64_t>(got.tokens.size()) - 1);
      right[way.name] += accepted(got);
    }
  }
  for (const Way& way : kWays) {
    INFO(way.name);
    CHECK(right[way.name] > 0);  // else drafts that stand were never tried
  }
}

TEST_CASE("drafts leave every cache: rewinds, forks and stops in the middle change nothing") {
  Model model = with_mtp();
  std::mt19937 rng(3);
  Session session(model);
  session.append(made_tokens(60, 1, 320));
  for (int step = 0; step < 120; ++step) {
    const Way& way = kWays[rng() % 4];
    GenerateOptions o = options_of(way, few(rng() % 5, 1), static_cast<unsigned>(rng()));
    o.max_tokens = static_cast<std::int64_t>(rng() % 12);
    const unsigned stop = rng() % 8;
    unsigned seen = 0;
    session.generate(o, [&](const TokenEvent&) {
      const auto size = session.size();
      CHECK(session.tokens().size() == static_cast<std::size_t>(size));
      return ++seen != stop;
    });
    if (rng() % 3 == 0)
      session.rewind(session.size() -
                     static_cast<std::int64_t>(rng() % static_cast<unsigned>(std::min<std::int64_t>(30, session.size()))));
    if (rng() % 4 == 0) {
      Session other = session.fork();
      session.append(made_tokens(1 + rng() % 5, static_cast<unsigned>(rng()), 320));  // past the shared blocks
      session = std::move(other);
    }
    if (session.size() > 300) session.rewind(70);
    Session fresh(model);
    fresh.append(session.tokens());
    INFO("step " << step << ", " << session.size() << " tokens");
    REQUIRE(same_bits(session.logits(), fresh.logits()));
    // And the draft layer's own cache: what it says next is what it says to a session that never drafted.
    Session a = session.fork();
    std::vector<float> last, want;
    auto more = made_tokens(2, static_cast<unsigned>(step), 320);
    a.append(more, {.draft_sink = [&](std::int64_t, std::span<const float> row) { last.assign(row.begin(), row.end()); }});
    fresh.append(more, {.draft_sink = [&](std::int64_t, std::span<const float> row) { want.assign(row.begin(), row.end()); }});
    REQUIRE(same_bits(last, want));
  }
}

TEST_CASE("the gate stops drafts that do not pay") {
  Model model = with_mtp();
  auto run = [&](double cost) {
    Session session(model);
    session.append(made_tokens(20, 5, 320));
    GenerateOptions o{.max_tokens = 200,
                      .sampler = SamplerOptions{.seed = 1, .temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0},
                      .ignore_end_of_generation = true};
    o.draft = Draft::mtp;
    o.draft_cost = cost;
    return session.generate(o);
  };
  const GenerateResult ungated = run(0), gated = run(0.5), measured = run(-1);
  CHECK(ungated.tokens == gated.tokens);
  const DraftCount all = ungated.drafts.positions[0], some = gated.drafts.positions[0];
  CHECK(all.proposed >= ungated.steps - 1);  // the last round has no room
  CHECK(all.accepted * 3 < all.proposed);    // random weights are seldom right
  CHECK(ungated.drafts.off == 0);
  CHECK(some.proposed * 3 < gated.steps);
  CHECK(gated.drafts.off * 2 > gated.steps);
  CHECK(gated.drafts.cost == 0.5);
  CHECK(measured.tokens == gated.tokens);
  CHECK(measured.drafts.cost >= 0);
}

TEST_CASE("drafts that a model cannot make, and options out of range") {
  Model model = Model::open(runtime_with(1), random_model("deepseek_v3_mtp"));
  Session s(model);
  s.append(std::vector<Token>{5, 6});
  expect_error(Code::unsupported, {"generate.draft"}, [&] { s.generate({.draft = Draft::mtp}); });
  expect_error(Code::argument, {"generate.draft_max", "got 17"}, [&] { s.generate({.draft_max = 17}); });
  expect_error(Code::argument, {"generate.draft_cost"}, [&] { s.generate({.draft_cost = -0.5}); });
  expect_error(Code::unsupported, {"append.draft_sink"},
               [&] { s.append(std::vector<Token>{7}, {.draft_sink = [](std::int64_t, std::span<const float>) {}}); });
  Model none = Model::open(runtime_with(1), random_model("deepseek_v3"), {.mtp = true});
  CHECK(none.info().warnings.size() == 1);
}

TEST_CASE("the cost of a draft is what the steps took, whatever held one of them up") {
  session::DraftCost cost;
  CHECK(cost.wants_plain());
  cost.learn(0, 5.0);  // the first step is slow
  CHECK(cost.wants_plain());
  cost.learn(0, 1.0);
  CHECK_FALSE(cost.wants_plain());
  cost.learn(3, 1.6);  // 0.2 of a step each, against the 0.25 that it begins with
  CHECK(std::fabs(cost.value() - 0.24) <= 1e-6);
  cost.learn(1, 1.3);
  CHECK(std::fabs(cost.value() - 0.252) <= 1e-6);
  cost.learn(2, 1000);  // held up: counts as 1.208, four times what was known
  CHECK(std::fabs(cost.value() - 0.4432) <= 1e-6);
  for (int i = 0; i < 61; ++i) {
    CHECK_FALSE(cost.wants_plain());
    cost.learn(2, 0.5);  // faster than a step without drafts: they cost nothing
  }
  CHECK(std::fabs(cost.value() - 0) <= 1e-6);
  CHECK(cost.wants_plain());
  for (int i = 0; i < 100; ++i) cost.learn(0, 2.0);
  cost.learn(1, 3.0);
  for (int i = 0; i < 60; ++i) cost.learn(1, 3.0);
  CHECK(std::fabs(cost.value() - 0.5) <= 0.005);
}

TEST_CASE("the gate weighs acceptance against cost, and tries again after a while") {
  session::DraftGate gate(3);
  CHECK(gate.choose(0.01) == 3);
  CHECK(gate.choose(0.6) == 1);
  CHECK_FALSE(gate.off());
  for (int i = 0; i < 100; ++i) gate.learn(1, 0);
  CHECK(gate.acceptance() < 0.01);
  int tried = 0;
  for (int i = 0; i < 320; ++i) {
    tried += gate.choose(0.1);
    CHECK(gate.off());
  }
  CHECK(tried == 10);
  for (int i = 0; i < 30; ++i) gate.learn(1, 1);
  CHECK(gate.choose(0.1) >= 1);
  CHECK_FALSE(gate.off());
  CHECK(gate.choose(1.5) == 0);  // right every time, and still too dear
}
