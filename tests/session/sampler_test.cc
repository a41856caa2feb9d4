#include "dsv31/sampler.h"

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>

#include "lib/session/candidates.h"
#include "lib/session/philox.h"
#include "lib/session/portable_math.h"
#include "lib/session/repetition.h"
#include "tests/catch.h"

using namespace dsv31;
using session::Candidates;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

SamplerOptions plain(float temperature) {
  SamplerOptions o;
  o.temperature = temperature;
  o.top_k = 0;
  o.top_p = 1;
  o.min_p = 0;
  return o;
}

Candidates of(std::vector<float> logits) {
  Candidates c;
  for (std::size_t i = 0; i < logits.size(); ++i) c.list().push_back({static_cast<Token>(i), logits[i]});
  return c;
}

std::vector<Token> ids(const Candidates& c) {
  std::vector<Token> out;
  for (auto& x : c.list()) out.push_back(x.id);
  std::sort(out.begin(), out.end());
  return out;
}

float ln(double p) { return static_cast<float>(std::log(p)); }

}  // namespace

TEST_CASE("Philox4x32-10 gives the published vectors") {
  using session::philox4x32_10;
  CHECK(philox4x32_10({0, 0, 0, 0}, {0, 0}) == std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32_10({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) ==
        std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("the portable exp and log stay within 4 units in the last place") {
  std::mt19937_64 rng(1);
  for (int i = 0; i < 20000; ++i) {
    double x = std::ldexp(static_cast<double>(rng() >> 11), static_cast<int>(rng() % 1800) - 950);
    if (x > 0) REQUIRE(std::fabs(session::portable_log(x) - std::log(x)) <= 4 * 2.3e-16 * std::max(1.0, std::fabs(std::log(x))));
    double y = static_cast<double>(static_cast<std::int64_t>(rng() % 1400000) - 700000) / 1000;
    REQUIRE(std::fabs(session::portable_exp(y) / std::exp(y) - 1) <= 4 * 2.3e-16);
  }
  CHECK(session::portable_exp(0) == 1);
  CHECK(session::portable_log(1) == 0);
  CHECK(session::portable_exp(-800) == 0);
}

TEST_CASE("temperature 0 is argmax, ties to the lowest id") {
  Sampler s(plain(0), 5);
  CHECK(s.sample(std::vector<float>{1, 3, 2, 3, -kInf}, 0) == 1);
}

TEST_CASE("draws follow the softmax: chi-square over 20,000 positions") {
  const std::vector<double> p{0.4, 0.3, 0.15, 0.1, 0.05};
  std::vector<float> logits;
  for (double x : p) logits.push_back(ln(x));
  Sampler s(plain(1), 5);
  std::vector<double> count(5);
  const int n = 20000;
  for (int i = 0; i < n; ++i) ++count[static_cast<std::size_t>(s.sample(logits, i))];
  double chi = 0;
  for (std::size_t i = 0; i < 5; ++i) chi += (count[i] - n * p[i]) * (count[i] - n * p[i]) / (n * p[i]);
  CHECK(chi < 18.5);  // 99.9 % of 4 degrees of freedom
  // and temperature 2 takes the square roots
  Sampler warm(plain(2), 5);
  double z = 0;
  for (double x : p) z += std::sqrt(x);
  std::fill(count.begin(), count.end(), 0.0);
  for (int i = 0; i < n; ++i) ++count[static_cast<std::size_t>(warm.sample(logits, i))];
  chi = 0;
  for (std::size_t i = 0; i < 5; ++i) {
    double e = n * std::sqrt(p[i]) / z;
    chi += (count[i] - e) * (count[i] - e) / e;
  }
  CHECK(chi < 18.5);
}

TEST_CASE("the draw depends on seed, stream and position only, not on who else is a candidate") {
  std::vector<float> logits(1000);
  std::mt19937 rng(3);
  for (float& l : logits) l = static_cast<float>(rng() % 1000) / 100;
  auto draw = [&](std::uint64_t seed, std::uint32_t stream, std::int64_t position, std::int32_t k) {
    SamplerOptions o = plain(0.7f);
    o.seed = seed;
    o.stream = stream;
    o.top_k = k;
    return Sampler(o, logits.size()).sample(logits, position);
  };
  int changed_by_seed = 0, changed_by_stream = 0, changed_by_position = 0;
  for (int i = 0; i < 50; ++i) {
    Token t = draw(7, 0, i, 0);
    CHECK(t == draw(7, 0, i, 0));
    CHECK(t == draw(7, 0, i, 900));  // the cut tokens are far too unlikely to have won
    changed_by_seed += t != draw(8, 0, i, 0);
    changed_by_stream += t != draw(7, 1, i, 0);
    changed_by_position += t != draw(7, 0, i + 1000, 0);
  }
  CHECK(changed_by_seed > 25);
  CHECK(changed_by_stream > 25);
  CHECK(changed_by_position > 25);
}

TEST_CASE("skipping hopeless candidates changes no draw") {
  // One token far behind: it is skipped when the leader's value is out of its reach. A full argmax must agree.
  std::vector<float> logits{0, -30, -36, -37, -45};
  SamplerOptions o = plain(1);
  Sampler s(o, 5);
  for (int i = 0; i < 2000; ++i) REQUIRE(s.sample(logits, i) == 0);
}

TEST_CASE("top_k keeps the k highest, ties to the lowest ids") {
  Candidates c = of({1, 5, 3, 5, 5});
  c.top_k(2);
  CHECK(ids(c) == std::vector<Token>{1, 3});
}

TEST_CASE("top_p keeps the token that crosses p") {
  Candidates c = of({ln(0.5), ln(0.3), ln(0.15), ln(0.05)});
  c.top_p(0.79f);
  CHECK(ids(c) == std::vector<Token>{0, 1});
  Candidates d = of({ln(0.05), ln(0.5), ln(0.15), ln(0.3)});
  d.top_p(0.81f);
  CHECK(ids(d) == std::vector<Token>{1, 2, 3});
  // A long list takes the shortcut over its head; the result is that of a full sort.
  std::mt19937 rng(5);
  for (int round = 0; round < 20; ++round) {
    std::vector<float> logits(3000);
    for (float& l : logits) l = static_cast<float>(rng() % 2000) / 150;
    Candidates shortcut = of(logits);
    shortcut.top_p(0.9f);
    std::vector<std::pair<float, Token>> sorted;
    double sum = 0;
    for (std::size_t i = 0; i < logits.size(); ++i)
      sorted.emplace_back(-logits[i], static_cast<Token>(i)), sum += std::exp(static_cast<double>(logits[i]));
    std::sort(sorted.begin(), sorted.end());
    double reached = 0;
    std::vector<Token> kept;
    for (auto& [l, t] : sorted) {
      kept.push_back(t);
      if ((reached += std::exp(static_cast<double>(-l)) / sum) >= 0.9) break;
    }
    std::sort(kept.begin(), kept.end());
    REQUIRE(ids(shortcut) == kept);
  }
}

TEST_CASE("min_p keeps what is at least p times as likely as the likeliest") {
  Candidates c = of({ln(0.5), ln(0.26), ln(0.24)});
  c.min_p(0.5f);
  CHECK(ids(c) == std::vector<Token>{0, 1});
}

TEST_CASE("typical keeps the tokens nearest to the entropy") {
  // H = 1.2206 nats; surprises 0.357, 2.303, 2.303, 2.996 (0.7, 0.1, 0.1, 0.05 and a rest): distances worked out by hand below.
  Candidates c = of({ln(0.7), ln(0.1), ln(0.1), ln(0.1)});
  // H = 0.9404; |0.3567 - H| = 0.584 is nearest, then the three equal ones at 1.362
  c.typical(0.75f);
  CHECK(ids(c) == std::vector<Token>{0, 1});
}

TEST_CASE("top_n_sigma drops what is n deviations below the highest") {
  // mean 2, deviation 2: the floor for n = 1 is 2, for n = 2 it is 0
  Candidates one = of({4, 4, 0, 0});
  one.top_n_sigma(1);
  CHECK(ids(one) == std::vector<Token>{0, 1});
  Candidates two = of({4, 4, 0, 0});
  two.top_n_sigma(2);
  CHECK(ids(two) == std::vector<Token>{0, 1, 2, 3});
}

TEST_CASE("xtc leaves the least likely of those above the threshold, when the draw says so") {
  auto make = [] { return of({ln(0.5), ln(0.3), ln(0.15), ln(0.05)}); };
  Candidates acts = make();
  acts.xtc(0.5f, 0.14f, 0.4);
  CHECK(ids(acts) == std::vector<Token>{2, 3});
  Candidates rests = make();
  rests.xtc(0.5f, 0.14f, 0.6);
  CHECK(ids(rests).size() == 4);
  Candidates lone = make();
  lone.xtc(1, 0.4f, 0.5);
  CHECK(ids(lone).size() == 4);
}

TEST_CASE("dynamic temperature: all equal gives the upper end, one sure token the lower") {
  Candidates flat = of({1, 1, 1, 1});
  flat.temperature(1, 0.5f, 1);
  CHECK(flat.list()[0].logit == Approx(1 / 1.5));
  Candidates sure = of({50, 0});
  sure.temperature(1, 0.5f, 1);
  CHECK(sure.list()[0].logit == Approx(100).epsilon(0.01));
}

TEST_CASE("penalties divide positive logits, multiply negative ones and subtract by count") {
  SamplerOptions o;
  o.repeat_penalty = 2;
  o.frequency_penalty = 0.5f;
  o.presence_penalty = 0.25f;
  std::vector<float> l{4, -4, 1};
  session::penalise_repetition(o, std::vector<Token>{0, 1, 0}, l);
  CHECK(l == std::vector<float>{4.0f / 2 - 1.25f, -8 - 0.75f, 1});
  o.penalty_last_n = 1;
  l = {4, -4, 1};
  session::penalise_repetition(o, std::vector<Token>{1, 0}, l);
  CHECK(l == std::vector<float>{2 - 0.75f, -4, 1});
}

TEST_CASE("DRY finds the longest repeated suffix before each continuation, cut at a breaker") {
  using P = std::vector<std::pair<Token, std::int32_t>>;
  // ... 1 2 3 | 1 2 : after "1 2" came 3
  CHECK(session::repeated_suffixes(std::vector<Token>{1, 2, 3, 1, 2}, {}) == P{{3, 2}});
  CHECK(session::repeated_suffixes(std::vector<Token>{9, 1, 2, 3, 7, 2, 4, 1, 2}, {}) == P{{3, 2}, {4, 1}});
  // the breaker 1 ends the suffix at "2"
  CHECK(session::repeated_suffixes(std::vector<Token>{1, 2, 3, 1, 2}, std::vector<Token>{1}) == P{{3, 1}});
  CHECK(session::repeated_suffixes(std::vector<Token>{5, 5, 5}, {}) == P{{5, 2}});
  SamplerOptions o;
  o.dry_multiplier = 1;
  o.dry_base = 2;
  o.dry_allowed_length = 2;
  std::vector<float> l(10, 0);
  session::penalise_dry(o, std::vector<Token>{1, 2, 3, 4, 1, 2, 3}, l);  // L = 3 for token 4: 2^(3-2)
  CHECK(l[4] == Approx(-2));
  CHECK(l[3] == 0);
}

TEST_CASE("mirostat holds the entropy of what it draws near tau") {
  std::vector<float> logits(200);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = -0.05f * static_cast<float>(i);
  // The whole distribution has 5.8 bits. Eight nearly equal tokens have 3.
  for (int version : {1, 2}) {
    SamplerOptions o = plain(1);
    o.mirostat = version;
    o.mirostat_tau = 3;
    Sampler s(o, logits.size());
    std::map<Token, double> count;
    const int n = 4000;
    for (int i = 0; i < n; ++i) {
      Token t = s.sample(logits, i);
      s.accept(t);
      if (i >= 500) ++count[t];
    }
    double entropy = 0;
    for (auto [t, c] : count) entropy -= c / (n - 500) * std::log2(c / (n - 500));
    CHECK(entropy > 2.7);
    CHECK(entropy < 3.5);
  }
}

TEST_CASE("rewind takes back history and mirostat's state") {
  std::vector<float> logits(50);
  for (std::size_t i = 0; i < 50; ++i) logits[i] = -0.1f * static_cast<float>(i);
  SamplerOptions o = plain(1);
  o.mirostat = 2;
  o.repeat_penalty = 1.3f;
  Sampler s(o, 50);
  std::vector<Token> first;
  for (int i = 0; i < 20; ++i) {
    first.push_back(s.sample(logits, i));
    s.accept(first.back());
  }
  s.rewind(12);
  for (int i = 8; i < 20; ++i) {
    Token t = s.sample(logits, i);
    REQUIRE(t == first[static_cast<std::size_t>(i)]);
    s.accept(t);
  }
  CHECK_THROWS_AS(s.rewind(21), Error);
}

TEST_CASE("stages run in the order given") {
  // min_p after temperature 0.5 squares the ratio and drops the second token; before it does not.
  std::vector<float> logits{ln(0.7), ln(0.3)};
  SamplerOptions o = plain(0.5f);
  o.min_p = 0.3f;
  o.order = {SamplerStage::temperature, SamplerStage::min_p};
  Sampler after(o, 2);
  o.order = {SamplerStage::min_p, SamplerStage::temperature};
  Sampler before(o, 2);
  int second_after = 0, second_before = 0;
  for (int i = 0; i < 500; ++i) {
    second_after += after.sample(logits, i) == 1;
    second_before += before.sample(logits, i) == 1;
  }
  CHECK(second_after == 0);
  CHECK(second_before > 20);
}

TEST_CASE("logit bias and the mask of allowed tokens ban") {
  SamplerOptions o = plain(0);
  o.logit_bias = {{2, -kInf}, {0, 2.5f}};
  Sampler s(o, 4);
  CHECK(s.sample(std::vector<float>{1, 2, 9, 3}, 0) == 0);
  std::uint32_t allowed = 0b0110;
  CHECK(s.sample(std::vector<float>{1, 2, 9, 3}, 0, {&allowed, 1}) == 1);
  allowed = 0b0100;  // only the banned one
  try {
    s.sample(std::vector<float>{1, 2, 9, 3}, 0, {&allowed, 1});
    FAIL("expected argument");
  } catch (const Error& e) {
    CHECK(e.code() == Code::argument);
  }
}

TEST_CASE("Q05 logits that are not finite are a backend error") {
  Sampler s(plain(1), 3);
  for (auto& bad : {std::vector<float>{1, NAN, 2}, std::vector<float>{1, kInf, 2}, std::vector<float>{-kInf, -kInf, -kInf}}) {
    try {
      s.sample(bad, 0);
      FAIL("expected backend");
    } catch (const Error& e) {
      CHECK(e.code() == Code::backend);
      CHECK(std::string(e.what()).find("non-finite logits") != std::string::npos);
    }
  }
  CHECK(s.sample(std::vector<float>{-kInf, 0, -kInf}, 0) == 1);
}

TEST_CASE("Q01 Q04 options out of range are arguments that name the field") {
  auto refused = [](const char* field, auto change) {
    SamplerOptions o;
    change(o);
    try {
      Sampler s(o, 100);
      FAIL("expected argument for " << field);
    } catch (const Error& e) {
      CHECK(e.code() == Code::argument);
      CHECK(std::string(e.what()).find(std::string("[sampler.") + field + "]") == 0);
    }
  };
  refused("temperature", [](auto& o) { o.temperature = -1; });
  refused("temperature", [](auto& o) { o.temperature = NAN; });
  refused("temperature", [](auto& o) { o.temperature = kInf; });
  refused("top_p", [](auto& o) { o.top_p = 0; });
  refused("top_p", [](auto& o) { o.top_p = 1.001f; });
  refused("top_p", [](auto& o) { o.top_p = NAN; });
  refused("min_p", [](auto& o) { o.min_p = -0.1f; });
  refused("typical_p", [](auto& o) { o.typical_p = 0; });
  refused("xtc_probability", [](auto& o) { o.xtc_probability = 2; });
  refused("repeat_penalty", [](auto& o) { o.repeat_penalty = 0; });
  refused("penalty_last_n", [](auto& o) { o.penalty_last_n = -2; });
  refused("dry_base", [](auto& o) { o.dry_base = 0.5f; });
  refused("mirostat", [](auto& o) { o.mirostat = 3; });
  refused("mirostat_eta", [](auto& o) { o.mirostat_eta = 0; });
  refused("logit_bias", [](auto& o) { o.logit_bias = {{100, 0}}; });
  refused("logit_bias", [](auto& o) { o.logit_bias = {{-1, 0}}; });
  refused("logit_bias", [](auto& o) { o.logit_bias = {{1, NAN}}; });
  refused("logit_bias", [](auto& o) { o.logit_bias.assign(101, {1, 0}); });
  refused("dry_breakers", [](auto& o) { o.dry_breakers = {100}; });
  refused("order", [](auto& o) { o.order = {SamplerStage::top_k, SamplerStage::top_k}; });
  SamplerOptions edge;
  edge.top_p = 1;
  edge.temperature = 1e-30f;
  edge.top_k = 1 << 30;
  CHECK(Sampler(edge, 3).sample(std::vector<float>{0, 5, 1}, 0) == 1);
}

TEST_CASE("log-probabilities are the log-softmax of the raw logits") {
  std::vector<float> logits{ln(0.5), ln(0.125), ln(0.25), ln(0.125)};
  CHECK(Sampler::logprob(logits, 2) == Approx(std::log(0.25)));
  auto top = Sampler::top_logprobs(logits, 3);
  REQUIRE(top.size() == 3);
  CHECK(top[0].token == 0);
  CHECK(top[1].token == 2);
  CHECK(top[2].token == 1);
  CHECK(top[2].logprob == Approx(std::log(0.125)));
  CHECK(Sampler::top_logprobs(logits, 10).size() == 4);
  CHECK_THROWS_AS(Sampler::logprob(logits, 4), Error);
}
