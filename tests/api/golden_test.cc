// The reference implementation's numbers, from the public API down: every architecture, on the plain backend and on the default
// one.
#include <algorithm>
#include <iostream>

#include "tests/api/fixtures.h"
#include "tests/catch.h"

using namespace dsv31;
using namespace dsv31::test;

namespace {

const char* const kModels[] = {
    "llama",       "llama3_rope",      "qwen2",       "qwen3",           "qwen3_moe",        "gemma3",
    "deepseek_v2", "deepseek_v2_lite", "deepseek_v3", "deepseek_v3_mtp", "deepseek_v3_bf16", "deepseek_v3_fp8",
    "deepseek_v32"};

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
        INFO(name << " prompt " << i << " on '" << backend << "': max difference " << max_difference(got, want) << " of "
                  << max_abs(want) << ", NMSE " << nmse(got, want));
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

// transformers takes any of the keys that score exactly 0; before the first row that this reaches, its logits are ours.
TEST_CASE("sparse attention equals transformers up to the first tie, 26 tokens into 8 keys a row") {
  for (const char* backend : {"reference", ""}) {
    Model model = Model::open(runtime_with(2, "", backend), random_model("deepseek_v32"));
    Golden golden(random_model("deepseek_v32") + "/golden.safetensors");
    auto ids = golden.ids("2.input_ids");
    auto want = golden.floats("transformers.logits");
    auto got = all_logits(model, std::span<const Token>(ids).first(26), {.exact = true});
    INFO("on '" << backend << "': max difference " << max_difference(got, want) << " of " << max_abs(want));
    CHECK(max_difference(got, want) <= 1e-4 * max_abs(want));
  }
}

// The files of a folder, one of them with a piece of text replaced.
class Edited final : public Folder {
 public:
  Edited(const std::string& path, std::string name, std::string from, std::string to)
      : folder_(open_folder(path)), name_(std::move(name)), from_(std::move(from)), to_(std::move(to)) {}
  std::shared_ptr<const Reader> open(std::string_view name) const override {
    auto reader = folder_->open(name);
    if (name != name_ || !reader) return reader;
    text_.resize(reader->size());
    reader->read_at(0, text_.data(), text_.size());
    for (std::size_t at = text_.find(from_); at != std::string::npos; at = text_.find(from_, at + to_.size()))
      text_.replace(at, from_.size(), to_);
    return memory_reader(text_.data(), text_.size());
  }

 private:
  std::shared_ptr<const Folder> folder_;
  std::string name_, from_, to_;
  mutable std::string text_;
};

TEST_CASE("sparse attention within index_topk has the bits of dense attention") {
  for (const char* backend : {"reference", ""})
    for (bool exact : {false, true}) {
      Runtime runtime = runtime_with(2, "", backend);
      const std::string path = random_model("deepseek_v32");
      Model sparse =
          Model::open(runtime, std::make_shared<Edited>(path, "config.json", "\"index_topk\": 8", "\"index_topk\": 300"), "");
      Model dense =
          Model::open(runtime, std::make_shared<Edited>(path, "config.json", "\"deepseek_v32\"", "\"deepseek_v3\""), "");
      auto ids = made_tokens(300, 11, 320);
      CHECK(sparse.info().architecture == "deepseek_v32");
      CHECK(dense.info().architecture == "deepseek_v3");
      CHECK(same_bits(all_logits(sparse, ids, {.exact = exact, .chunk = 70}),
                      all_logits(dense, ids, {.exact = exact, .chunk = 70})));
    }
}

TEST_CASE("a GGUF of the same weights gives the logits of the folder") {
  Runtime runtime = runtime_with(2);
  Model folder = Model::open(runtime, random_model("deepseek_v3")),
        gguf = Model::open(runtime, random_model("deepseek_v3") + "/deepseek_v3.gguf");
  auto ids = made_tokens(150, 3, folder.info().vocab_size);
  CHECK(nmse(all_logits(gguf, ids, {.exact = true}), all_logits(folder, ids, {.exact = true})) <= 1e-12);
  Golden golden(random_model("deepseek_v3") + "/golden.safetensors");
  auto want = golden.floats("2.logits");
  CHECK(max_difference(all_logits(gguf, golden.ids("2.input_ids"), {.exact = true}), want) <= 1e-4 * max_abs(want));
}

// With oneDNN built in, these are its products; else, but for MLA's other form, those of the test above.
TEST_CASE("relaxed mode gives the recorded logits of float models") {
  Runtime runtime = runtime_with(2);
  for (const char* name : {"llama", "qwen2", "qwen3", "qwen3_moe", "gemma3", "deepseek_v2", "deepseek_v3"}) {
    Model model = Model::open(runtime, random_model(name));
    Golden golden(random_model(name) + "/golden.safetensors");
    const auto want = golden.floats("2.logits");
    const auto got = all_logits(model, golden.ids("2.input_ids"), {.exact = true, .relaxed = true});
    INFO(name << ": NMSE " << nmse(got, want));
    CHECK(nmse(got, want) <= 1e-10);
  }
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
    rows.push_back(nmse(
        std::vector<float>(got.begin() + static_cast<std::ptrdiff_t>(at), got.begin() + static_cast<std::ptrdiff_t>(at + vocab)),
        std::vector<float>(reference.begin() + static_cast<std::ptrdiff_t>(at),
                           reference.begin() + static_cast<std::ptrdiff_t>(at + vocab))));
  std::sort(rows.begin(), rows.end());
  return rows[rows.size() / 2];
}

TEST_CASE("fast arithmetic stays near exact on every architecture") {
  Runtime runtime = runtime_with(2);
  for (const char* name : kModels) {
    Model model = Model::open(runtime, random_model(name));
    auto ids = made_tokens(200, 9, model.info().vocab_size);
    double e = median_row_nmse(all_logits(model, ids, {}), all_logits(model, ids, {.exact = true}),
                               static_cast<std::size_t>(model.info().vocab_size));
    INFO(name << " NMSE " << e);
    CHECK(e <= 1e-5);  // the weights are float, so this is the f16 cache alone
  }
}

TEST_CASE("the embedded model in Q8_0: fast arithmetic stays near exact, on every instruction set") {
  for (const std::string& isa : available_isas()) {
    std::cout << "[isa] " << isa << " ran\n";
    Model model = Model::open(runtime_with(2, isa), DSV31_TINY_MODEL);
    auto ids = made_tokens(isa == "generic" ? 40 : 200, 9, model.info().vocab_size);
    double e = median_row_nmse(all_logits(model, ids, {}), all_logits(model, ids, {.exact = true}),
                               static_cast<std::size_t>(model.info().vocab_size));
    INFO(isa << " NMSE " << e);
    CHECK(e <= 1e-3);
  }
}
