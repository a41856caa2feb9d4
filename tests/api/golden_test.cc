// The reference implementation's numbers, from the public API down: every architecture, on the plain backend and on the default one.
#include <algorithm>
#include <iostream>

#include "tests/api/fixtures.h"
#include "tests/catch.h"

using namespace dsv31;
using namespace dsv31::test;

namespace {

const char* const kModels[] = {"llama",    "llama3_rope",      "qwen2",       "qwen3",           "qwen3_moe", "gemma3",
                               "deepseek_v2", "deepseek_v2_lite", "deepseek_v3", "deepseek_v3_mtp", "deepseek_v3_bf16", "deepseek_v3_fp8"};

std::vector<Token> greedy(const Model& model, std::span<const Token> prompt, std::int64_t n) {
  Session session(model, {.exact = true});
  session.append(prompt);
  return session.generate({.max_tokens = n, .sampler = SamplerOptions::greedy(), .ignore_end_of_generation = true}).tokens;
}

}  // namespace

TEST_CASE("exact logits equal the recorded ones, greedy tokens are identical") {
  for (const char* backend : {"reference", ""}) {
    Runtime runtime = runtime_with(2, "", backend);
    for (const char* name : kModels) {
      Model model = Model::open(runtime, random_model(name));
      Golden golden(random_model(name) + "/golden.safetensors");
      for (int i = 0; golden.has(std::to_string(i) + ".input_ids"); ++i) {
        const std::string at = std::to_string(i);
        auto want = golden.floats(at + ".logits");
        auto got = all_logits(model, golden.ids(at + ".input_ids"), {.exact = true});
        INFO(name << " prompt " << i << " on '" << backend << "': max difference " << max_difference(got, want) << " of " << max_abs(want) << ", NMSE "
                  << nmse(got, want));
        if (std::string(name) == "deepseek_v3_bf16") {
          CHECK(nmse(got, want) <= 1e-6);
        } else {
          CHECK(max_difference(got, want) <= 1e-4 * max_abs(want));
        }
      }
      if (golden.has("1.greedy")) {
        INFO(name << " on '" << backend << "'");
        CHECK(greedy(model, golden.ids("1.input_ids"), 16) == golden.ids("1.greedy"));
      }
    }
  }
}

TEST_CASE("a GGUF of the same weights gives the logits of the folder") {
  Runtime runtime = runtime_with(2);
  Model folder = Model::open(runtime, random_model("deepseek_v3")), gguf = Model::open(runtime, random_model("deepseek_v3") + "/deepseek_v3.gguf");
  auto ids = made_tokens(150, 3, folder.info().vocab_size);
  CHECK(nmse(all_logits(gguf, ids, {.exact = true}), all_logits(folder, ids, {.exact = true})) <= 1e-12);
  Golden golden(random_model("deepseek_v3") + "/golden.safetensors");
  auto want = golden.floats("2.logits");
  CHECK(max_difference(all_logits(gguf, golden.ids("2.input_ids"), {.exact = true}), want) <= 1e-4 * max_abs(want));
}

TEST_CASE("relaxed mode's expanded latent attention agrees with the absorbed form") {
  Runtime runtime = runtime_with(2);
  for (const char* name : {"deepseek_v2", "deepseek_v2_lite", "deepseek_v3"}) {
    Model model = Model::open(runtime, random_model(name));
    auto ids = made_tokens(300, 5, model.info().vocab_size);
    auto absorbed = all_logits(model, ids, {.exact = true}), expanded = all_logits(model, ids, {.exact = true, .relaxed = true});
    INFO(name << " NMSE " << nmse(expanded, absorbed));
    CHECK(nmse(expanded, absorbed) <= 1e-10);
    CHECK_FALSE(same_bits(expanded, absorbed));  // else it would not be another form
  }
}

// Median over the rows: where rounding tips a near-tie of a router, a row of a random model goes another way altogether.
double median_row_nmse(const std::vector<float>& got, const std::vector<float>& reference, std::size_t vocab) {
  std::vector<double> rows;
  for (std::size_t at = 0; at + vocab <= reference.size(); at += vocab)
    rows.push_back(nmse(std::vector<float>(got.begin() + static_cast<std::ptrdiff_t>(at), got.begin() + static_cast<std::ptrdiff_t>(at + vocab)),
                        std::vector<float>(reference.begin() + static_cast<std::ptrdiff_t>(at), reference.begin() + static_cast<std::ptrdiff_t>(at + vocab))));
  std::sort(rows.begin(), rows.end());
  return rows[rows.size() / 2];
}

TEST_CASE("fast arithmetic stays near exact on every architecture") {
  Runtime runtime = runtime_with(2);
  for (const char* name : kModels) {
    Model model = Model::open(runtime, random_model(name));
    auto ids = made_tokens(200, 9, model.info().vocab_size);
    double e = median_row_nmse(all_logits(model, ids, {}), all_logits(model, ids, {.exact = true}), static_cast<std::size_t>(model.info().vocab_size));
    INFO(name << " NMSE " << e);
    CHECK(e <= 1e-5);  // the weights are float, so this is the f16 cache alone
  }
}

TEST_CASE("the embedded model in Q8_0: fast arithmetic stays near exact, on every instruction set") {
  for (const std::string& isa : available_isas()) {
    std::cout << "[isa] " << isa << " ran\n";
    Model model = Model::open(runtime_with(2, isa), DSV31_TINY_MODEL);
    auto ids = made_tokens(isa == "generic" ? 40 : 200, 9, model.info().vocab_size);
    double e = median_row_nmse(all_logits(model, ids, {}), all_logits(model, ids, {.exact = true}), static_cast<std::size_t>(model.info().vocab_size));
    INFO(isa << " NMSE " << e);
    CHECK(e <= 1e-3);
  }
}
