#include <cstdio>
#include <map>

#include "command.h"

namespace cli {

void DraftArgs::add_to(CLI::App& app) {
  app.add_option("--draft", draft,
                 "Guess tokens ahead, the output stays the same: mtp (the model's own layer), ngram (prompt lookup), off")
      ->transform(CLI::CheckedTransformer(std::map<std::string, dsv31::Draft>{
          {"mtp", dsv31::Draft::mtp}, {"ngram", dsv31::Draft::ngram}, {"off", dsv31::Draft::none}}));
  app.add_option("--draft-max", most, "Tokens ahead at most")->check(CLI::Range(1, 16));
  app.add_flag("--stats", stats, "Print speed and the acceptance of drafts on stderr");
}

void DraftArgs::apply(dsv31::GenerateOptions& options) const {
  options.draft = draft;
  options.draft_max = most;
}

std::string acceptance(const dsv31::DraftStats& drafts) {
  std::string out;
  for (const dsv31::DraftCount& d : drafts.positions) {
    if (d.proposed == 0) break;
    char text[64];
    std::snprintf(text, sizeof text, "%s%.0f %% of %lld", out.empty() ? "" : ", ",
                  100.0 * static_cast<double>(d.accepted) / static_cast<double>(d.proposed), static_cast<long long>(d.proposed));
    out += text;
  }
  return out.empty() ? "none" : out;
}

void print_stats(std::size_t tokens, std::int64_t steps, const dsv31::DraftStats& drafts, double seconds) {
  std::fprintf(stderr, "dsv31: %zu tokens in %.2f s (%.1f tokens/s), %lld steps", tokens, seconds,
               seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0, static_cast<long long>(steps));
  if (!drafts.positions.empty())
    std::fprintf(stderr, "; drafts accepted: %s; one costs %.2f of a step; switched off for %lld steps",
                 acceptance(drafts).c_str(), drafts.cost, static_cast<long long>(drafts.off));
  std::fputc('\n', stderr);
}

}  // namespace cli
