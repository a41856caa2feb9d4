// Real models, as users have them: exact arithmetic against transformers on the dequantised weights, fast arithmetic against
// exact, with llama.cpp's own distance from the same reference as the yardstick. The yardsticks stand in the metadata of the
// recordings: llama.cpp 0.3.36 (Python package) against transformers over the first 700 tokens of tests/data/real/text_700.txt.
#include <algorithm>
#include <iostream>

#include "tests/api/fixtures.h"
#include "tests/catch.h"

using namespace dsv31;
using namespace dsv31::test;

namespace {

struct Real {
  const char* name;
  const char* file;
  double peer_kld, peer_top1;  // llama.cpp's mean KL divergence and agreement of the likeliest token
};

const Real kReal[] = {
    {"smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", 3.753e-03, 0.9600},
    {"qwen2.5-coder-0.5b", "qwen2.5-coder-0.5b-instruct.gguf", 1.047e-03, 0.9700},
    {"gemma3-270m", "gemma3-270m-Q4_K_M.gguf", 6.152e-03, 0.9643},
};

Model open(const Real& r) { return Model::open(runtime_with(0), std::string(DSV31_MODELS) + "/" + r.file); }
Golden recording(const Real& r, const char* suffix) { return Golden(std::string(DSV31_TEST_DATA) + "/real/" + r.name + suffix); }

void log_softmax(std::span<const float> logits, std::vector<double>& out) {
  double top = static_cast<double>(*std::max_element(logits.begin(), logits.end())), sum = 0;
  out.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) sum += std::exp(out[i] = static_cast<double>(logits[i]) - top);
  for (double& v : out) v -= std::log(sum);
}

}  // namespace

TEST_CASE("exact: recorded logits of short prompts and 32 greedy tokens") {
  for (const Real& r : kReal) {
    Model model = open(r);
    Golden golden = recording(r, ".safetensors");
    for (int i = 0; golden.has(std::to_string(i) + ".input_ids"); ++i) {
      const std::string at = std::to_string(i);
      auto ids = golden.ids(at + ".input_ids");
      Session s(model, {.exact = true});
      std::vector<float> rows = all_logits(s, ids);
      const std::size_t vocab = static_cast<std::size_t>(model.info().vocab_size);
      std::vector<float> last(rows.end() - static_cast<std::ptrdiff_t>(vocab), rows.end());
      auto want = golden.floats(at + ".logits_last");
      INFO(r.name << " prompt " << i << " NMSE " << nmse(last, want));
      CHECK(nmse(last, want) <= 1e-8);
      auto top_ids = golden.ids(at + ".top16_ids");
      auto top_logits = golden.floats(at + ".top16_logits");
      std::vector<float> mine;
      for (std::size_t k = 0; k < top_ids.size(); ++k)
        mine.push_back(rows[k / 16 * vocab + static_cast<std::size_t>(top_ids[k])]);
      CHECK(nmse(mine, top_logits) <= 1e-8);
      auto generated =
          s.generate({.max_tokens = 32, .sampler = SamplerOptions::greedy(), .ignore_end_of_generation = true}).tokens;
      CHECK(generated == golden.ids(at + ".greedy"));
    }
  }
}

TEST_CASE("700 tokens: exact equals the recording; fast is as near to exact as llama.cpp is") {
  for (const Real& r : kReal) {
    Model model = open(r);
    Golden golden = recording(r, "_700.safetensors");
    auto ids = golden.ids("input_ids"), positions = golden.ids("positions");
    auto want = golden.floats("logits"), nll = golden.floats("nll");
    const std::size_t vocab = static_cast<std::size_t>(model.info().vocab_size);

    std::vector<float> exact = all_logits(model, ids, {.exact = true}), picked;
    for (Token p : positions)
      picked.insert(picked.end(), exact.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(p) * vocab),
                    exact.begin() + static_cast<std::ptrdiff_t>((static_cast<std::size_t>(p) + 1) * vocab));
    INFO(r.name << " NMSE " << nmse(picked, want));
    CHECK(nmse(picked, want) <= 1e-8);

    std::vector<double> p, q;
    double divergence = 0, nll_exact = 0, nll_fast = 0, worst_nll = 0;
    std::size_t same = 0, row = 0;
    Session fast(model);
    fast.append(ids, [&](std::int64_t, std::span<const float> logits) {
      log_softmax(std::span<const float>(exact).subspan(row * vocab, vocab), p);
      log_softmax(logits, q);
      for (std::size_t t = 0; t < vocab; ++t) divergence += std::exp(p[t]) * (p[t] - q[t]);
      same += std::max_element(p.begin(), p.end()) - p.begin() == std::max_element(q.begin(), q.end()) - q.begin();
      if (row + 1 < ids.size()) {
        auto next = static_cast<std::size_t>(ids[row + 1]);
        nll_exact -= p[next];
        nll_fast -= q[next];
        worst_nll = std::max(worst_nll, std::fabs(-p[next] - static_cast<double>(nll[row])));
      }
      ++row;
    });
    const double n = static_cast<double>(ids.size());
    std::cout << r.name << ": KL divergence " << divergence / n << " (llama.cpp " << r.peer_kld << "), top-1 "
              << static_cast<double>(same) / n << " (llama.cpp " << r.peer_top1 << "), perplexity exact "
              << std::exp(nll_exact / (n - 1)) << " fast " << std::exp(nll_fast / (n - 1)) << "\n";
    CHECK(worst_nll <= 2e-3);
    CHECK(divergence / n <= 1.05 * r.peer_kld);
    CHECK(static_cast<double>(same) / n >= r.peer_top1 - 0.005);
    CHECK(std::fabs(std::exp((nll_fast - nll_exact) / (n - 1)) - 1) <= 0.01);
  }
}
