#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <tuple>

#include "command.h"

namespace cli {
namespace {

std::string where(const dsv31::SelfCheckRow& r) {
  std::string out = r.what;
  if (!r.types.empty()) out += " " + r.types;
  return r.layer < 0 ? out : out + ", layer " + std::to_string(r.layer);
}

void print_json(const dsv31::SelfCheckReport& report) {
  std::printf("{\"ok\": %s, \"rows\": [", report.ok() ? "true" : "false");
  const char* comma = "";
  for (const dsv31::SelfCheckRow& r : report.rows) {
    std::printf("%s{\"check\": %s, \"what\": %s, \"types\": %s, \"arithmetic\": %s, \"layer\": %d, \"ok\": %s, \"nmse\": %s, ",
                comma, json_string(r.check).c_str(), json_string(r.what).c_str(), json_string(r.types).c_str(),
                json_string(r.arithmetic).c_str(), r.layer, r.ok ? "true" : "false", number(r.nmse).c_str());
    std::printf("\"limit\": %s, \"cosine\": %s, \"note\": %s}", number(r.limit).c_str(), number(r.cosine).c_str(),
                json_string(r.note).c_str());
    comma = ", ";
  }
  std::printf("], \"left_out\": [");
  comma = "";
  for (const std::string& s : report.left_out) std::printf("%s%s", comma, json_string(s).c_str()), comma = ", ";
  std::printf("]}\n");
}

// Ops of one kind and type in one line, with the worst of them; the rest as it is.
void print_text(const dsv31::SelfCheckReport& report) {
  struct Group {
    int count = 0;
    double nmse = 0, limit = 0, cosine = 1;
    int layer = -1;
    std::string note;
  };
  std::map<std::tuple<std::string, std::string, std::string, std::string>, Group> groups;
  for (const dsv31::SelfCheckRow& r : report.rows) {
    Group& g = groups[{r.check, r.arithmetic, r.what, r.types}];
    ++g.count;
    g.limit = r.limit;
    g.cosine = std::min(g.cosine, r.cosine);
    if (r.nmse >= g.nmse) g.nmse = r.nmse, g.layer = r.layer;
    if (!r.note.empty()) g.note = r.note;
  }
  for (const auto& [key, g] : groups) {
    const auto& [check, numerics, what, types] = key;
    std::printf("%-9s %-6s %s%s%s", check.c_str(), numerics.c_str(), what.c_str(), types.empty() ? "" : " ", types.c_str());
    if (g.count > 1) std::printf(" x%d", g.count);
    if (g.limit > 0) {
      std::printf(": NMSE at most %.2g of %.2g", g.nmse, g.limit);
      if (g.layer >= 0) std::printf(" (layer %d)", g.layer);
      std::printf(", cosine at least %.9f", g.cosine);
    } else if (check != "weights" && check != "kernel") {
      std::printf(": the same bits");
    }
    std::printf("%s%s\n", g.note.empty() ? "" : "; ", g.note.c_str());
  }
  for (const std::string& s : report.left_out) std::printf("left out  %s\n", s.c_str());
  int failed = 0;
  for (const dsv31::SelfCheckRow& r : report.rows) {
    if (r.ok) continue;
    ++failed;
    std::printf("FAILED    %s %s %s: NMSE %.3g, limit %.3g%s%s\n", r.check.c_str(), r.arithmetic.c_str(), where(r).c_str(),
                r.nmse, r.limit, r.note.empty() ? "" : "; ", r.note.c_str());
  }
  std::printf("%zu checks, %d failed\n", report.rows.size(), failed);
}

}  // namespace

// dsv31 verify: whether this machine computes this model as the plain reference says. Exit status 1 if it does not.
void add_verify(CLI::App& app, std::function<void()>& action) {
  struct Args {
    ModelArgs model;
    dsv31::SelfCheckOptions options;
    bool json = false;
  };
  auto a = std::make_shared<Args>();
  CLI::App* sub = app.add_subcommand("verify", "Checks the model's computation on this machine against the reference");
  a->model.add_to(*sub);
  sub->add_option("--tokens", a->options.tokens, "Tokens of the prompt")->check(CLI::Range(8L, 4096L));
  sub->add_option("--weights", a->options.weights, "Weights that the reference multiplies by, about")
      ->check(CLI::NonNegativeNumber);
  sub->add_flag("--json", a->json, "Print JSON, with every op");
  sub->callback([&action, a] {
    action = [a] {
      const dsv31::SelfCheckReport report = open_model(a->model).self_check(a->options);
      (a->json ? print_json : print_text)(report);
      if (!report.ok()) throw Failed{};
    };
  });
}

}  // namespace cli
