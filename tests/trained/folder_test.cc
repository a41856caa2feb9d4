// The trained model's own folder, DSV31_TEST_TRAINED: bfloat16, with the layer that drafts.
#include <cmath>
#include <random>

#include "dsv31/convert.h"
#include "tests/api/fixtures.h"
#include "tests/catch.h"
#include "tests/scratch_folder.h"
#include "tests/trained/tasks.h"

using namespace dsv31;
using namespace dsv31::test;

TEST_CASE("exact: the reference's ids in every case") {
  Session session(Model::open(runtime_with(1), DSV31_TRAINED), {.exact = true});
  const std::vector<Task> tasks = read_tasks();
  CHECK(tasks.size() == 357);
  std::size_t same = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    INFO("case " << i << ", " << tasks[i].name);
    const bool equal = answer_ids(session, tasks[i]) == tasks[i].reference_ids;
    CHECK(equal);
    same += equal;
  }
  std::cout << "exact: " << same << " of " << tasks.size() << " cases with the reference's ids\n";
}

TEST_CASE("FP8 by convert(): as many right answers as the reference in float32, within 2 points") {
  const ScratchFolder scratch("trained");
  const ConvertReport report = convert(DSV31_TRAINED, scratch.path() + "/fp8");
  std::cout << "FP8: " << report.converted << " of " << report.tensors << " tensors converted, " << report.source_bytes << " to "
            << report.written_bytes << " bytes, NMSE " << report.nmse << "\n";
  CHECK(report.nmse < 1e-3);
  for (bool exact : {false, true}) {
    const Shares s =
        run_tasks(Model::open(runtime_with(1), scratch.path() + "/fp8"), {.exact = exact}, exact ? "FP8 exact" : "FP8");
    CHECK(std::fabs(s.ours - s.reference) <= 0.02);
  }
}

TEST_CASE("1,000 prompts at temperature 1: the same ids with drafts off, on and randomly gated") {
  const Model model = Model::open(runtime_with(1), DSV31_TRAINED, {.mtp = true}),
              plain = Model::open(runtime_with(1), DSV31_TRAINED);
  const std::vector<Task> tasks = read_tasks();
  Session off(plain), on(model), gated(model), ngram(model);
  std::vector<DraftCount> sum(3), sum_ngram(3);
  std::int64_t tokens = 0, steps = 0, differ = 0;
  std::mt19937 rng(1);
  for (unsigned n = 0; n < 1000; ++n) {
    std::string prompt = tasks[n % tasks.size()].prompt;
    if (n >= tasks.size())  // other numbers
      for (char& c : prompt)
        if (c >= '0' && c <= '9') c = static_cast<char>('0' + rng() % 10);
    const auto ids = model.tokenizer().encode(prompt, {.special = Special::all});
    const auto run = [&](Session& s, Draft draft, bool gate) {
      s.rewind(0);
      s.append(ids);
      GenerateOptions o{.max_tokens = 24,
                        .sampler = SamplerOptions{.seed = n, .temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0},
                        .draft = draft};
      o.draft_cost = 0;
      if (gate) o.draft_gate = [&rng](std::int64_t) { return static_cast<int>(rng() % 4); };
      return s.generate(o);
    };
    const auto want = run(off, Draft::none, false), mtp = run(on, Draft::mtp, false), some = run(gated, Draft::mtp, true),
               lookup = run(ngram, Draft::ngram, true);
    differ += mtp.tokens != want.tokens || some.tokens != want.tokens || lookup.tokens != want.tokens;
    for (std::size_t i = 0; i < 3; ++i) {
      sum[i].proposed += mtp.drafts.positions[i].proposed, sum[i].accepted += mtp.drafts.positions[i].accepted;
      sum_ngram[i].proposed += lookup.drafts.positions[i].proposed, sum_ngram[i].accepted += lookup.drafts.positions[i].accepted;
    }
    tokens += static_cast<std::int64_t>(mtp.tokens.size());
    steps += mtp.steps;
  }
  CHECK(differ == 0);
  std::cout << "temperature 1: " << tokens << " tokens of 1000 prompts in " << steps << " steps, " << differ
            << " prompts with other ids; mtp accepted";
  for (const DraftCount& d : sum) std::cout << " " << d.accepted << "/" << d.proposed;
  std::cout << ", ngram";
  for (const DraftCount& d : sum_ngram) std::cout << " " << d.accepted << "/" << d.proposed;
  std::cout << "\n";
  CHECK(sum[0].accepted * 2 > sum[0].proposed);
  for (std::size_t i = 1; i < 3; ++i) CHECK(sum[i].proposed <= sum[i - 1].proposed);
}

TEST_CASE("greedy answers to every case: acceptance by position, and the same ids") {
  const Model model = Model::open(runtime_with(1), DSV31_TRAINED, {.mtp = true});
  Session plain(model), drafted(model);
  std::vector<DraftCount> sum(3);
  std::int64_t tokens = 0, steps = 0, differ = 0;
  for (const Task& task : read_tasks()) {
    const auto run = [&](Session& s, Draft draft) {
      s.rewind(0);
      s.append(task.prompt_ids);
      GenerateOptions o{.max_tokens = 200, .sampler = SamplerOptions::greedy(), .draft = draft};
      o.draft_cost = 0;
      return s.generate(o);
    };
    const auto want = run(plain, Draft::none), mtp = run(drafted, Draft::mtp);
    differ += mtp.tokens != want.tokens;
    for (std::size_t i = 0; i < 3; ++i)
      sum[i].proposed += mtp.drafts.positions[i].proposed, sum[i].accepted += mtp.drafts.positions[i].accepted;
    tokens += static_cast<std::int64_t>(mtp.tokens.size());
    steps += mtp.steps;
  }
  std::cout << "greedy: " << tokens << " tokens of 357 prompts in " << steps << " steps; mtp accepted";
  for (const DraftCount& d : sum) std::cout << " " << d.accepted << "/" << d.proposed;
  std::cout << "\n";
  CHECK(differ == 0);
  CHECK(sum[0].accepted * 2 > sum[0].proposed);
}
