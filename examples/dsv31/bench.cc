#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <span>
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

struct Args {
  ModelArgs model;
  long prompt = 512, generate = 64, repeat = 5;
  std::vector<long> depths = {0};
  bool json = false;
  DraftArgs draft;
  std::string text;
};

// What was measured after `depth` tokens, beside the limit that the machine sets.
struct Row {
  long depth = 0;
  double prefill_tps = 0, prefill_limit_tps = 0, decode_tps = 0, decode_limit_tps = 0, bytes_per_token = 0,
         barriers_per_layer = 0;
  std::int64_t barriers = 0;
  std::string logits_hash;
};

// Appends up to `depth`, then measures, rewinds and measures again.
Row measure(dsv31::Session& session, const Args& a, long depth) {
  const long vocab = static_cast<long>(session.model().info().vocab_size);
  const auto warm = tokens(depth, 51, vocab), prompt = tokens(a.prompt, 1, vocab), decode = tokens(a.generate, 10, vocab);
  session.append(std::span(warm).subspan(static_cast<std::size_t>(session.size())));
  Row row{.depth = depth};
  std::vector<double> prefill_tps, decode_tps;
  for (long r = 0; r <= a.repeat; ++r) {  // the first round warms up
    auto start = Clock::now();
    session.append(prompt);
    const double prefill = seconds_since(start);
    start = Clock::now();
    for (dsv31::Token t : decode) session.append({&t, 1});
    const double generated = seconds_since(start);
    row.logits_hash = logits_hash(session.logits());
    session.rewind(depth);
    if (r == 0 && a.repeat > 1) continue;
    prefill_tps.push_back(static_cast<double>(a.prompt) / prefill);
    decode_tps.push_back(static_cast<double>(a.generate) / generated);
  }
  row.prefill_tps = median(prefill_tps);
  row.decode_tps = median(decode_tps);
  return row;
}

// The limits of what the row measured.
void limit(Row& row, const dsv31::Model& model, const dsv31::ComputeOptions& compute, const Args& a,
           const dsv31::MachineProfile& machine) {
  const std::int64_t middle = row.depth + a.prompt + a.generate / 2;
  const dsv31::TokenWork work = dsv31::token_work(model, compute, middle);
  row.bytes_per_token = dsv31::decode_bytes(work, middle);
  row.decode_limit_tps = machine.read_bandwidth / row.bytes_per_token;
  const double least = dsv31::least_prefill_seconds(machine, work, row.depth, a.prompt);
  row.prefill_limit_tps = least > 0 ? static_cast<double>(a.prompt) / least : 0;
  row.barriers = work.barriers;
  row.barriers_per_layer = static_cast<double>(work.barriers) / static_cast<double>(std::max<std::int64_t>(1, work.layers));
}

void print_json(const Row& row, const dsv31::MachineProfile& machine) {
  std::printf(
      "{\"depth\": %ld, \"prefill_tps\": %s, \"prefill_limit_tps\": %s, \"decode_tps\": %s, \"decode_limit_tps\": %s, "
      "\"threads\": %d, \"isa\": %s, \"bytes_per_token\": %s, \"read_bandwidth\": %s, \"bandwidth_share\": %s, "
      "\"barriers_per_token\": %lld, \"barriers_per_layer\": %s, \"logits_hash\": \"%s\", \"machine\": %s}\n",
      row.depth, number(row.prefill_tps).c_str(), number(row.prefill_limit_tps).c_str(), number(row.decode_tps).c_str(),
      number(row.decode_limit_tps).c_str(), machine.threads, json_string(machine.isa).c_str(),
      number(row.bytes_per_token).c_str(), number(machine.read_bandwidth).c_str(),
      number(row.decode_tps / row.decode_limit_tps).c_str(), static_cast<long long>(row.barriers),
      number(row.barriers_per_layer).c_str(), row.logits_hash.c_str(), machine_json(machine).c_str());
}

void print_text(const Row& row, const Args& a, const dsv31::MachineProfile& machine) {
  std::printf("prefill  %8.1f tokens/s (%ld tokens after %ld", row.prefill_tps, a.prompt, row.depth);
  if (row.prefill_limit_tps > 0)
    std::printf("; %.0f %% of the %.1f that its multiply-accumulates allow", 100 * row.prefill_tps / row.prefill_limit_tps,
                row.prefill_limit_tps);
  std::printf(
      ")\ndecode   %8.1f tokens/s (%.1f MB a token; %.0f %% of the %.1f that reading them allows)\n"
      "barriers %8lld a token, %.1f a layer: %.1f %% of decode\nlogits   %s\n",
      row.decode_tps, row.bytes_per_token / 1e6, 100 * row.decode_tps / row.decode_limit_tps, row.decode_limit_tps,
      static_cast<long long>(row.barriers), row.barriers_per_layer,
      100 * static_cast<double>(row.barriers) * machine.barrier_seconds * row.decode_tps, row.logits_hash.c_str());
}

}  // namespace

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  std::size_t n = v.size();
  return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

// dsv31 bench: tokens a second of prefill and decode, each beside the limit that the machine sets.
void add_bench(CLI::App& app, std::function<void()>& action) {
  auto a = std::make_shared<Args>();
  CLI::App* sub = app.add_subcommand("bench", "Measures prefill and decode");
  a->model.add_to(*sub);
  a->model.add_compute_to(*sub);
  sub->add_option("-p", a->prompt, "Tokens of prefill")->check(CLI::Range(1L, 1L << 20));
  sub->add_option("-n", a->generate, "Tokens of decode")->check(CLI::Range(1L, 1L << 20));
  sub->add_option("-d", a->depths, "Tokens in the cache before the prefill; several: 0,4096,8192")
      ->delimiter(',')
      ->check(CLI::Range(0L, 1L << 20));
  sub->add_option("-r", a->repeat, "Repetitions; medians are reported")->check(CLI::Range(1L, 1000L));
  sub->add_flag("--json", a->json, "Print JSON, an object in a line for each depth");
  a->draft.add_to(*sub);
  sub->add_option("--text", a->text, "With --draft: a prompt, in a file, to go on from; special tokens count as such");
  sub->callback([&action, a] {
    action = [a] {
      dsv31::Model model = open_model(a->model, a->draft.mtp());
      dsv31::ComputeOptions compute = a->model.compute();
      if (a->draft.draft != dsv31::Draft::none) {
        if (a->text.empty()) throw UsageError{"bench: got --draft without --text, expected a file with a prompt to go on from"};
        return bench_drafts(
            model, compute,
            {.text = read_text(a->text), .draft = a->draft, .generate = a->generate, .repeat = a->repeat, .json = a->json});
      }
      std::vector<long> depths = a->depths;
      std::sort(depths.begin(), depths.end());  // one session grows from depth to depth
      compute.context = depths.back() + a->prompt + a->generate;
      dsv31::Session session(model, compute);
      std::vector<Row> rows;
      for (long depth : depths) rows.push_back(measure(session, *a, depth));
      const dsv31::MachineProfile machine = dsv31::probe_machine(model.runtime());
      if (!a->json) print_machine(machine);
      for (Row& row : rows) {
        limit(row, model, compute, *a, machine);
        if (a->json)
          print_json(row, machine);
        else
          print_text(row, *a, machine);
      }
    };
  });
}

}  // namespace cli
