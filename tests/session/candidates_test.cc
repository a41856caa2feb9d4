// The stages against their definition: sort everything, then cut. On logits of a whole vocabulary, where the fast ways are taken.
#include "lib/session/candidates.h"

#include <algorithm>
#include <limits>
#include <random>

#include "dsv31/sampler.h"
#include "lib/session/logit_blocks.h"
#include "lib/session/philox.h"
#include "lib/session/portable_math.h"
#include "tests/catch.h"

using namespace dsv31;
using session::Candidate;
using session::Candidates;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// The definition.
struct Sorted {
  std::vector<Candidate> list;
  explicit Sorted(const std::vector<float>& logits) {
    for (std::size_t i = 0; i < logits.size(); ++i)
      if (logits[i] > -kInf) list.push_back({static_cast<Token>(i), logits[i]});
    std::stable_sort(list.begin(), list.end(), [](auto& a, auto& b) { return a.logit > b.logit; });
  }
  void top_k(std::int32_t k) {
    if (k > 0 && static_cast<std::size_t>(k) < list.size()) list.resize(static_cast<std::size_t>(k));
  }
  void top_p(float p) {
    if (p >= 1) return;
    double sum = 0, reached = 0;
    for (const Candidate& c : list)
      sum += session::portable_exp(static_cast<double>(c.logit) - static_cast<double>(list[0].logit));
    for (std::size_t i = 0; i < list.size(); ++i) {
      reached += session::portable_exp(static_cast<double>(list[i].logit) - static_cast<double>(list[0].logit)) / sum;
      if (reached >= static_cast<double>(p)) return list.resize(i + 1);
    }
  }
  void min_p(float p) {
    if (p <= 0) return;
    const double floor = static_cast<double>(list[0].logit) + session::portable_log(static_cast<double>(p));
    while (static_cast<double>(list.back().logit) < floor) list.pop_back();
  }
};

std::vector<Candidate> sorted(std::vector<Candidate> list) {
  std::sort(list.begin(), list.end(), session::before);
  return list;
}

bool same(const std::vector<Candidate>& a, const std::vector<Candidate>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Candidate& x, const Candidate& y) { return x.id == y.id && x.logit == y.logit; });
}

enum class Kind { peaked, spread, flat, ties, all_equal, mostly_banned, huge, count };

std::vector<float> logits_of(Kind kind, std::size_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, kind == Kind::peaked ? 3.0f : 1.0f);
  std::vector<float> out(n);
  for (float& l : out) {
    l = normal(random);
    if (kind == Kind::flat) l = static_cast<float>(random() >> 8) * 0x1p-24f;
    if (kind == Kind::ties) l = static_cast<float>(random() % 12);
    if (kind == Kind::all_equal) l = -2.5f;
    if (kind == Kind::mostly_banned && random() % 100 != 0) l = -kInf;
    if (kind == Kind::huge) l *= 1e30f;
  }
  if (kind == Kind::peaked)
    for (int i = 0; i < 5; ++i) out[random() % n] = 12.0f + static_cast<float>(i % 2);
  if (kind == Kind::mostly_banned) out[random() % n] = 1;
  return out;
}

}  // namespace

TEST_CASE("the stages leave what sorting everything and cutting leaves, ties by the lowest id") {
  struct Chain {
    std::int32_t k;
    float p, m;
  };
  for (const std::size_t n : {1u, 2u, 63u, 64u, 65u, 700u, 9001u, 40000u})
    for (int kind = 0; kind < static_cast<int>(Kind::count); ++kind) {
      const std::vector<float> logits = logits_of(static_cast<Kind>(kind), n, static_cast<std::uint32_t>(n) + 7);
      for (const Chain& chain :
           {Chain{40, 1, 0}, Chain{1, 1, 0}, Chain{0, 0.95f, 0}, Chain{0, 0.3f, 0}, Chain{0, 0.9999f, 0}, Chain{0, 1, 0.05f},
            Chain{0, 1, 0.9f}, Chain{300, 0.9f, 0.02f}, Chain{5000, 0.5f, 0.001f}, Chain{0, 0.8f, 0.2f}, Chain{65, 0.999f, 0}}) {
        INFO("n " << n << ", kind " << kind << ", top_k " << chain.k << ", top_p " << chain.p << ", min_p " << chain.m);
        Sorted want(logits);
        want.top_k(chain.k);
        want.top_p(chain.p);
        want.min_p(chain.m);
        Candidates got;
        REQUIRE(got.assign(logits));
        CHECK(got.likeliest() == want.list[0].id);
        got.top_k(chain.k);
        got.top_p(chain.p);
        got.min_p(chain.m);
        REQUIRE(same(sorted(got.list()), want.list));
      }
    }
}

TEST_CASE("sums run in the order of falling logits after a cut, however it was made") {
  for (const Kind kind : {Kind::spread, Kind::flat, Kind::ties}) {
    const std::vector<float> logits = logits_of(kind, 20000, 3);
    Candidates fast, slow;
    REQUIRE(fast.assign(logits));
    for (std::size_t i = 0; i < logits.size(); ++i) slow.list().push_back({static_cast<Token>(i), logits[i]});
    for (Candidates* c : {&fast, &slow}) {
      c->top_p(0.9f);
      c->settle();
      c->typical(0.7f);
      c->temperature(0.7f, 0.3f, 1.5f);
    }
    CHECK(same(fast.list(), slow.list()));
  }
}

TEST_CASE("a NaN or an infinity among the logits is seen wherever it stands") {
  for (const std::size_t n : {1u, 64u, 130u})
    for (std::size_t i = 0; i < n; ++i)
      for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInf}) {
        std::vector<float> logits(n, 0.5f);
        session::LogitBlocks blocks;
        CHECK(blocks.assign(logits));
        logits[i] = bad;
        CHECK_FALSE(blocks.assign(logits));
      }
  session::LogitBlocks none;
  CHECK(none.assign(std::vector<float>(70, -kInf)));
  CHECK(none.empty());
}

TEST_CASE("the rough masses keep their bound") {
  for (int kind = 0; kind < static_cast<int>(Kind::count); ++kind)
    for (const std::size_t n : {1u, 100u, 5000u}) {
      const std::vector<float> logits = logits_of(static_cast<Kind>(kind), n, 11);
      session::LogitBlocks blocks;
      REQUIRE(blocks.assign(logits));
      if (blocks.empty()) continue;
      const float floor = blocks.highest() - 3;
      double above = 0, below = 0;
      for (const float l : logits)
        if (l > -kInf)
          (l >= floor ? above : below) += session::portable_exp(static_cast<double>(l) - static_cast<double>(blocks.highest()));
      const auto mass = blocks.rough_mass(floor);
      CHECK(std::fabs(mass.above - above) <= session::LogitBlocks::kSumError * above);
      CHECK(std::fabs(mass.below - below) <= session::LogitBlocks::kSumError * below + 1e-30);
    }
}

TEST_CASE("a draw is the argmax of logits and noise over all candidates") {
  for (const Kind kind : {Kind::peaked, Kind::spread, Kind::flat, Kind::ties, Kind::all_equal}) {
    const std::vector<float> logits = logits_of(kind, 3001, 17);
    SamplerOptions o;
    o.seed = 0x1234567890abcdef;
    o.stream = 3;
    o.temperature = 1;
    o.top_k = 0;
    o.top_p = 1;
    o.min_p = 0;
    Sampler sampler(o, logits.size());
    for (const std::int64_t position : {0, 1, 2, 77, 5000, 123456}) {
      double best = -std::numeric_limits<double>::infinity();
      Token want = kNoToken;
      for (std::uint32_t i = 0; i < logits.size(); ++i) {
        const auto w = session::philox4x32_10({i >> 1, static_cast<std::uint32_t>(position), o.stream, 0},
                                              {static_cast<std::uint32_t>(o.seed), static_cast<std::uint32_t>(o.seed >> 32)});
        const std::uint64_t bits = (i & 1) ? std::uint64_t{w[2]} << 32 | w[3] : std::uint64_t{w[0]} << 32 | w[1];
        const double u = (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
        const double value = static_cast<double>(logits[i]) - session::portable_log(-session::portable_log(u));
        if (value > best) best = value, want = static_cast<Token>(i);
      }
      CHECK(sampler.sample(logits, position) == want);
    }
  }
}

TEST_CASE("exp without branches gives the bits of exp with branches") {
  std::mt19937_64 random(5);
  std::vector<double> x = {0, -0.0, -1e-300, -0.34657359, -0.34657360, -689.9, -1, -2, -0.5};
  for (int i = 0; i < 20000; ++i)
    x.push_back(-std::ldexp(static_cast<double>(random() >> 11), -53 + static_cast<int>(random() % 10)));
  std::vector<double> y = x;
  session::exp_of_negative(y.data(), y.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i] > -690) REQUIRE(y[i] == session::portable_exp(x[i]));
}
