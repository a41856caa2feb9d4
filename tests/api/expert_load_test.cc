// How many tokens chose each expert: counts that the model's weights make known beforehand, and those of the reference's gate.
#include <algorithm>

#include "tests/api/fixtures.h"
#include "tests/api/made_model.h"
#include "tests/catch.h"
#include "tests/expect_error.h"

using namespace dsv31;
using namespace dsv31::test;

namespace {

// Token t is the unit vector t, attention and experts add nothing, and row e of every gate prefers the tokens that say so: token
// t chooses experts t and t + 1 (modulo 8) in layer 0, t and t + 2 in layer 1, always 0 and 3 in layer 2.
void known_routes(const std::string& name, std::vector<float>& data) {
  const auto set = [&](std::size_t row, std::size_t col, float v) { data[row * kMadeHidden + col] = v; };
  if (name == "token_embd.weight") {
    std::fill(data.begin(), data.end(), 0.0f);
    for (std::size_t t = 0; t < kMadeHidden; ++t) set(t, t, 1);
  } else if (name.find("attn_output") != std::string::npos || name.find("ffn_down_exps") != std::string::npos) {
    std::fill(data.begin(), data.end(), 0.0f);
  } else if (name.find("ffn_gate_inp") != std::string::npos) {
    std::fill(data.begin(), data.end(), 0.0f);
    const std::size_t layer = static_cast<std::size_t>(name[4] - '0');
    for (std::size_t t = 0; t < kMadeHidden; ++t) {
      set(layer == 2 ? 0 : t % 8, t, 2);
      set(layer == 2 ? 3 : (t + 1 + layer) % 8, t, 1);
    }
  }
}

using Counts = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("expert counts are those that the weights make known") {
  for (const char* backend : {"", "reference"})
    for (const std::int64_t chunk : {1, 3, 512}) {
      Model model = made_model(runtime_with(2, "", backend), known_routes, {.count_experts = true});
      Session session(model, {.chunk = chunk});
      session.append(std::vector<Token>{0, 0, 0, 1, 5, 8});  // token 8 is like token 0
      const auto load = model.expert_load();
      REQUIRE(load.size() == 3);
      CHECK(load[0].layer == 0);
      CHECK(load[2].layer == 2);
      CHECK(load[0].tokens == Counts{4, 5, 1, 0, 0, 1, 1, 0});
      CHECK(load[1].tokens == Counts{4, 1, 4, 1, 0, 1, 0, 1});
      CHECK(load[2].tokens == Counts{6, 0, 0, 6, 0, 0, 0, 0});
      CHECK(load[0].imbalance() == 5 * 8 / 12.0);
      CHECK(load[2].imbalance() == 4);
      Session other = session.fork();
      other.append(std::vector<Token>{2});
      CHECK(model.expert_load()[0].tokens == Counts{4, 5, 2, 1, 0, 1, 1, 0});
    }
  Model model = made_model(runtime_with(1), known_routes);
  expect_error(Code::argument, {"count_experts"}, [&] { model.expert_load(); });
}

TEST_CASE("expert counts are those of the reference's gate, and change no bit") {
  for (const char* name : {"qwen3_moe", "deepseek_v2", "deepseek_v3"}) {
    const auto ids = made_tokens(90, 4, 320);
    std::vector<std::vector<float>> logits;
    std::vector<std::vector<ExpertLoad>> loads;
    for (const char* backend : {"", "reference"}) {
      Model model = Model::open(runtime_with(2, "", backend), random_model(name), {.count_experts = true});
      logits.push_back(all_logits(model, ids, {.exact = true}));
      loads.push_back(model.expert_load());
    }
    CHECK(same_bits(all_logits(Model::open(runtime_with(2), random_model(name)), ids, {.exact = true}), logits[0]));
    INFO(name);
    REQUIRE(loads[0].size() == loads[1].size());
    REQUIRE(!loads[0].empty());
    for (std::size_t l = 0; l < loads[0].size(); ++l) {
      CHECK(loads[0][l].tokens == loads[1][l].tokens);
      std::uint64_t sum = 0;
      for (const std::uint64_t n : loads[0][l].tokens) sum += n;
      CHECK(sum % 90 == 0);
      CHECK(sum > 0);
    }
  }
}

TEST_CASE("a step that was cancelled counts no tokens") {
  Model model = made_model(runtime_with(2), known_routes, {.count_experts = true});
  Session session(model);
  CancelToken cancel;
  cancel.cancel();
  expect_error(Code::cancelled, {"session.step"}, [&] { session.append(std::vector<Token>{0, 1, 2}, {.cancel = &cancel}); });
  CHECK(model.expert_load()[0].tokens == Counts(8, 0));
  session.append(std::vector<Token>{0});
  CHECK(model.expert_load()[0].tokens == Counts{1, 1, 0, 0, 0, 0, 0, 0});
}
