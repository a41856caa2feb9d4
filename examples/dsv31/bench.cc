#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "dsv31/profile.h"

namespace cli {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

// Ids without meaning but spread over the vocabulary; the peers are fed the same.
std::vector<dsv31::Token> tokens(long n, long salt, long vocab) {
  std::vector<dsv31::Token> out;
  for (long i = 0; i < n; ++i)
    out.push_back(static_cast<dsv31::Token>((i * 7919 + salt * 104729) % std::max(1L, vocab - 300) + std::min(100L, vocab - 1)));
  return out;
}

std::string machine_json(const dsv31::MachineProfile& m) {
  std::string out = "{\"isa\": " + json_string(m.isa) + ", \"threads\": " + std::to_string(m.threads) +
                    ", \"cycles_per_second\": " + number(m.cycles_per_second) +
                    ", \"read_bandwidth_one\": " + number(m.read_bandwidth_one) +
                    ", \"read_bandwidth\": " + number(m.read_bandwidth) + ", \"barrier_seconds\": " + number(m.barrier_seconds) +
                    ", \"forms\": [";
  const char* comma = "";
  for (const dsv31::FormRate& f : m.forms) {
    out += comma + std::string("{\"form\": ") + json_string(f.form) + ", \"macs_per_second\": " + number(f.macs_per_second) +
           ", \"macs_per_cycle\": " + number(f.macs_per_cycle) + "}";
    comma = ", ";
  }
  return out + "]}";
}

void print_machine(const dsv31::MachineProfile& m) {
  std::printf("machine  %s, %d threads at %.2f GHz; reads %.1f GB/s with one thread, %.1f with all; barrier %.2f us\n",
              m.isa.c_str(), m.threads, m.cycles_per_second / 1e9, m.read_bandwidth_one / 1e9, m.read_bandwidth / 1e9,
              m.barrier_seconds * 1e6);
  for (const dsv31::FormRate& f : m.forms) {
    std::printf("  %-8s %6.1f multiply-accumulates a cycle and core, %7.1f G/s together:", f.form.c_str(), f.macs_per_cycle,
                f.macs_per_second / 1e9);
    for (const std::string& t : f.types) std::printf(" %s", t.c_str());
    std::printf("\n");
  }
}

}  // namespace

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  std::size_t n = v.size();
  return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

// dsv31 bench: tokens a second of prefill and decode, each beside the limit that the machine sets.
void add_bench(CLI::App& app, std::function<void()>& action) {
  struct Args {
    ModelArgs model;
    long prompt = 512, generate = 64, depth = 0, repeat = 5;
    bool json = false;
    DraftArgs draft;
    std::string text;
  };
  auto a = std::make_shared<Args>();
  CLI::App* sub = app.add_subcommand("bench", "Measures prefill and decode");
  a->model.add_to(*sub);
  a->model.add_compute_to(*sub);
  sub->add_option("-p", a->prompt, "Tokens of prefill")->check(CLI::Range(1L, 1L << 20));
  sub->add_option("-n", a->generate, "Tokens of decode")->check(CLI::Range(1L, 1L << 20));
  sub->add_option("-d", a->depth, "Tokens in the cache before the prefill")->check(CLI::Range(0L, 1L << 20));
  sub->add_option("-r", a->repeat, "Repetitions; medians are reported")->check(CLI::Range(1L, 1000L));
  sub->add_flag("--json", a->json, "Print JSON");
  a->draft.add_to(*sub);
  sub->add_option("--text", a->text, "With --draft: a prompt, in a file, to go on from; special tokens count as such");
  sub->callback([&action, a] {
    action = [a] {
      dsv31::Model model = open_model(a->model, a->draft.mtp());
      if (a->draft.draft != dsv31::Draft::none) {
        if (a->text.empty()) throw UsageError{"bench: got --draft without --text, expected a file with a prompt to go on from"};
        return bench_drafts(
            model, a->model.compute(),
            {.text = read_text(a->text), .draft = a->draft, .generate = a->generate, .repeat = a->repeat, .json = a->json});
      }
      const dsv31::ModelInfo& info = model.info();
      dsv31::ComputeOptions compute = a->model.compute();
      compute.context = a->depth + a->prompt + a->generate;
      const long vocab = static_cast<long>(info.vocab_size);
      auto warm = tokens(a->depth, 51, vocab), prompt = tokens(a->prompt, 1, vocab), decode = tokens(a->generate, 10, vocab);
      std::vector<double> prefill_tps, decode_tps;
      std::string hash;
      for (long r = 0; r <= a->repeat; ++r) {  // the first round warms up
        dsv31::Session session(model, compute);
        session.append(warm);
        auto start = Clock::now();
        session.append(prompt);
        double prefill = seconds_since(start);
        start = Clock::now();
        for (dsv31::Token t : decode) session.append({&t, 1});
        double generated = seconds_since(start);
        hash = logits_hash(session.logits());
        if (r == 0 && a->repeat > 1) continue;
        prefill_tps.push_back(static_cast<double>(a->prompt) / prefill);
        decode_tps.push_back(static_cast<double>(a->generate) / generated);
      }
      const dsv31::MachineProfile machine = dsv31::probe_machine(model.runtime());
      const std::int64_t middle = a->depth + a->prompt + a->generate / 2;
      const dsv31::TokenWork work = dsv31::token_work(model, compute, middle);
      const double bytes = dsv31::decode_bytes(work, middle), bandwidth = machine.read_bandwidth;
      const double prefill = median(prefill_tps), tps = median(decode_tps), share = bytes * tps / bandwidth;
      const double least = dsv31::least_prefill_seconds(machine, work, a->depth, a->prompt);
      const double prefill_limit = least > 0 ? static_cast<double>(a->prompt) / least : 0;
      const double a_layer = static_cast<double>(work.barriers) / static_cast<double>(std::max<std::int64_t>(1, work.layers));
      if (a->json) {
        std::printf(
            "{\"prefill_tps\": %s, \"prefill_limit_tps\": %s, \"decode_tps\": %s, \"decode_limit_tps\": %s, \"threads\": %d, "
            "\"isa\": %s, \"bytes_per_token\": %s, \"read_bandwidth\": %s, \"bandwidth_share\": %s, "
            "\"barriers_per_token\": %lld, \"barriers_per_layer\": %s, \"logits_hash\": \"%s\", \"machine\": %s}\n",
            number(prefill).c_str(), number(prefill_limit).c_str(), number(tps).c_str(), number(bandwidth / bytes).c_str(),
            machine.threads, json_string(machine.isa).c_str(), number(bytes).c_str(), number(bandwidth).c_str(),
            number(share).c_str(), static_cast<long long>(work.barriers), number(a_layer).c_str(), hash.c_str(),
            machine_json(machine).c_str());
        return;
      }
      print_machine(machine);
      std::printf("prefill  %8.1f tokens/s (%ld tokens after %ld", prefill, a->prompt, a->depth);
      if (prefill_limit > 0)
        std::printf("; %.0f %% of the %.1f that its multiply-accumulates allow", 100 * prefill / prefill_limit, prefill_limit);
      std::printf(
          ")\ndecode   %8.1f tokens/s (%.1f MB a token; %.0f %% of the %.1f that reading them allows)\n"
          "barriers %8lld a token, %.1f a layer: %.1f %% of decode\nlogits   %s\n",
          tps, bytes / 1e6, 100 * share, bandwidth / bytes, static_cast<long long>(work.barriers), a_layer,
          100 * static_cast<double>(work.barriers) * machine.barrier_seconds * tps, hash.c_str());
    };
  });
}

}  // namespace cli
