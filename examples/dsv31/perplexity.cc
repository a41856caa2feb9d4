#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>

#include "command.h"

namespace cli {
namespace {

// log-softmax in double.
void log_softmax(std::span<const float> logits, std::vector<double>& out) {
  double top = *std::max_element(logits.begin(), logits.end()), sum = 0;
  out.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) sum += std::exp(out[i] = static_cast<double>(logits[i]) - top);
  for (double& v : out) v -= std::log(sum);
}

std::size_t argmax(const std::vector<double>& v) {
  return static_cast<std::size_t>(std::max_element(v.begin(), v.end()) - v.begin());
}

// Tokens by expert of each layer; with --against-exact those of both runs.
std::string spread(const dsv31::Model& model, bool json) {
  std::string out = json ? ", \"experts\": [" : "\nlayer  busiest expert over the mean  tokens by expert";
  const char* comma = "";
  for (const dsv31::ExpertLoad& load : model.expert_load()) {
    const std::string ratio = number(load.imbalance());
    if (json)
      out += std::string(comma) + "{\"layer\": " + std::to_string(load.layer) + ", \"imbalance\": " + ratio + ", \"tokens\": [";
    else
      out += "\n" + std::to_string(load.layer) + "  " + ratio + " ";
    for (std::size_t e = 0; e < load.tokens.size(); ++e)
      out += (json && e == 0 ? "" : json ? ", " : " ") + std::to_string(load.tokens[e]);
    if (json) out += "]}";
    comma = ", ";
  }
  return json ? out + "]" : out;
}

struct Statistics {
  double nll = 0;
  long scored = 0, same_top = 0;
  std::vector<double> divergence;  // from exact, at every position
};

}  // namespace

// dsv31 perplexity: how well the model predicts a text, and how far the fast arithmetic is from the exact one.
void add_perplexity(CLI::App& app, std::function<void()>& action) {
  struct Args {
    ModelArgs model;
    std::string file;
    long ctx = 512, limit = -1;
    bool against_exact = false, experts = false, json = false;
  };
  auto a = std::make_shared<Args>();
  CLI::App* sub = app.add_subcommand("perplexity", "Perplexity of a text");
  a->model.add_to(*sub);
  a->model.add_compute_to(*sub);
  sub->add_option("-f,--file", a->file, "The text; -: stdin")->required();
  sub->add_option("--ctx", a->ctx, "Tokens of a window; windows do not overlap")->check(CLI::Range(2L, 1L << 24));
  sub->add_option("--limit", a->limit, "Use only the first tokens of the text");
  sub->add_flag("--against-exact", a->against_exact,
                "Also the Kullback-Leibler divergence from exact arithmetic and the agreement of the likeliest token");
  sub->add_flag("--experts", a->experts, "Also how the tokens are spread over the experts of each layer");
  sub->add_flag("--json", a->json, "Print JSON");
  sub->callback([&action, a] {
    action = [a] {
      std::string text = read_text(a->file);
      dsv31::Model model = open_model(a->model, false, a->experts);
      auto ids = model.tokenizer().encode(text, {.bos = model.tokenizer().adds_bos()});
      if (a->limit >= 0 && static_cast<std::size_t>(a->limit) < ids.size()) ids.resize(static_cast<std::size_t>(a->limit));
      if (ids.size() < 2) throw UsageError{"perplexity: got a text of fewer than two tokens, expected more"};
      const std::size_t window =
          std::min<std::size_t>(static_cast<std::size_t>(a->ctx), static_cast<std::size_t>(model.info().context_length));

      Statistics s;
      std::vector<double> p, q;
      for (std::size_t begin = 0; begin < ids.size(); begin += window) {
        std::span<const dsv31::Token> tokens(ids.data() + begin, std::min(window, ids.size() - begin));
        const std::size_t vocab = static_cast<std::size_t>(model.info().vocab_size);
        std::vector<float> reference;
        if (a->against_exact) {
          dsv31::ComputeOptions exact = a->model.compute();
          exact.exact = true;
          dsv31::Session session(model, exact);
          session.append(tokens, [&](std::int64_t, std::span<const float> row) {
            reference.insert(reference.end(), row.begin(), row.end());
          });
        }
        dsv31::Session session(model, a->model.compute());
        session.append(tokens, [&](std::int64_t i, std::span<const float> row) {
          const auto at = static_cast<std::size_t>(i);
          log_softmax(row, q);
          if (at + 1 < tokens.size()) {
            s.nll -= q[static_cast<std::size_t>(tokens[at + 1])];
            ++s.scored;
          }
          if (!a->against_exact) return;
          log_softmax(std::span<const float>(reference).subspan(at * vocab, vocab), p);
          double d = 0;
          for (std::size_t t = 0; t < vocab; ++t) d += std::exp(p[t]) * (p[t] - q[t]);
          s.divergence.push_back(d);
          s.same_top += argmax(p) == argmax(q);
        });
      }
      const double nll = s.nll / static_cast<double>(s.scored), ppl = std::exp(nll);
      std::string extra;
      if (a->against_exact) {
        const double n = static_cast<double>(s.divergence.size());
        double mean = std::accumulate(s.divergence.begin(), s.divergence.end(), 0.0) / n;
        std::sort(s.divergence.begin(), s.divergence.end());
        double p99 = s.divergence[std::min(s.divergence.size() - 1, static_cast<std::size_t>(0.99 * n))];
        double top1 = static_cast<double>(s.same_top) / n;
        extra = a->json ? ", \"kld_mean\": " + number(mean) + ", \"kld_p99\": " + number(p99) + ", \"top1\": " + number(top1)
                        : "\nKL divergence from exact: mean " + number(mean) + ", 99 % " + number(p99) +
                              "\nsame likeliest token: " + number(100 * top1) + " %";
      }
      if (a->experts) extra += spread(model, a->json);
      if (a->json)
        std::printf("{\"tokens\": %zu, \"scored\": %ld, \"nll\": %s, \"perplexity\": %s%s}\n", ids.size(), s.scored,
                    number(nll).c_str(), number(ppl).c_str(), extra.c_str());
      else
        std::printf("perplexity %s over %ld tokens%s\n", number(ppl).c_str(), s.scored, extra.c_str());
    };
  });
}

}  // namespace cli
