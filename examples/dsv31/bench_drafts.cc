#include <chrono>
#include <cstdio>

#include "command.h"

namespace cli {

void bench_drafts(const dsv31::Model& model, const dsv31::ComputeOptions& compute, const DraftBench& args) {
  using Clock = std::chrono::steady_clock;
  const auto ids = model.tokenizer().encode(args.text, {.special = dsv31::Special::all});
  if (ids.empty()) throw UsageError{"bench: got an empty text, expected a prompt"};
  dsv31::Session session(model, compute);
  std::vector<double> plain, drafted;
  dsv31::GenerateResult last;
  std::vector<dsv31::Token> tokens;
  for (long r = 0; r <= args.repeat; ++r)  // the first round warms up
    for (bool with : {false, true}) {
      session.rewind(0);
      session.append(ids);
      dsv31::GenerateOptions o;
      o.max_tokens = args.generate;
      o.sampler = dsv31::SamplerOptions::greedy();
      o.ignore_end_of_generation = true;
      if (with) args.draft.apply(o);
      const auto start = Clock::now();
      auto result = session.generate(o);
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      if (!tokens.empty() && tokens != result.tokens)
        throw dsv31::Error(dsv31::Code::backend, "bench.draft", "got other tokens with drafts than without, expected the same");
      tokens = result.tokens;
      if (r == 0 && args.repeat > 1) continue;
      (with ? drafted : plain).push_back(static_cast<double>(tokens.size()) / seconds);
      if (with) last = std::move(result);
    }
  const double without = median(plain), with = median(drafted);
  if (!args.json) {
    std::printf("decode   %8.1f tokens/s without drafts, %.1f with: ratio %.2f\n", without, with, with / without);
    std::printf("drafts   accepted: %s; one costs %.2f of a step; switched off for %lld of %lld steps\n",
                acceptance(last.drafts).c_str(), last.drafts.cost, static_cast<long long>(last.drafts.off),
                static_cast<long long>(last.steps));
    return;
  }
  std::printf(
      "{\"decode_tps\": %s, \"draft_tps\": %s, \"ratio\": %s, \"tokens\": %zu, \"steps\": %lld, \"draft_cost\": %s, \"off\": "
      "%lld, ",
      number(without).c_str(), number(with).c_str(), number(with / without).c_str(), tokens.size(),
      static_cast<long long>(last.steps), number(last.drafts.cost).c_str(), static_cast<long long>(last.drafts.off));
  std::printf("\"drafts\": [");
  for (std::size_t i = 0; i < last.drafts.positions.size(); ++i)
    std::printf("%s{\"proposed\": %lld, \"accepted\": %lld}", i ? ", " : "",
                static_cast<long long>(last.drafts.positions[i].proposed),
                static_cast<long long>(last.drafts.positions[i].accepted));
  std::printf("]}\n");
}

}  // namespace cli
