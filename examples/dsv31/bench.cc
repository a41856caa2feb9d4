#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include "command.h"

namespace cli {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  std::size_t n = v.size();
  return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

// Ids without meaning but spread over the vocabulary; the peers are fed the same.
std::vector<dsv31::Token> tokens(long n, long salt, long vocab) {
  std::vector<dsv31::Token> out;
  for (long i = 0; i < n; ++i)
    out.push_back(static_cast<dsv31::Token>((i * 7919 + salt * 104729) % std::max(1L, vocab - 300) + std::min(100L, vocab - 1)));
  return out;
}

// Bytes a second that `threads` threads read together, the best of three passes over a buffer far larger than the caches.
double read_bandwidth(int threads) {
  const std::size_t words =
      (std::size_t{256} << 20) / sizeof(std::uint64_t) / static_cast<std::size_t>(threads) * static_cast<std::size_t>(threads);
  std::vector<std::uint64_t> buffer(words, 1);
  double best = 0;
  for (int pass = 0; pass < 3; ++pass) {
    auto start = Clock::now();
    std::vector<std::thread> team;
    std::vector<std::uint64_t> sums(static_cast<std::size_t>(threads) * 8);
    for (int t = 0; t < threads; ++t)
      team.emplace_back([&, t] {
        const std::size_t share = words / static_cast<std::size_t>(threads);
        const std::uint64_t* p = buffer.data() + share * static_cast<std::size_t>(t);
        std::uint64_t s[8] = {};
        for (std::size_t i = 0; i + 8 <= share; i += 8)
          for (std::size_t j = 0; j < 8; ++j) s[j] += p[i + j];
        for (std::uint64_t x : s) sums[static_cast<std::size_t>(t) * 8] += x;
      });
    for (auto& t : team) t.join();
    volatile std::uint64_t keep = sums[0];
    (void)keep;
    best = std::max(best, static_cast<double>(words * sizeof(std::uint64_t)) / seconds_since(start));
  }
  return best;
}

}  // namespace

// dsv31 bench: tokens a second of prefill and decode, beside the limit that memory sets.
void add_bench(CLI::App& app, std::function<void()>& action) {
  struct Args {
    ModelArgs model;
    long prompt = 512, generate = 64, depth = 0, repeat = 5;
    bool json = false;
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
  sub->callback([&action, a] {
    action = [a] {
      dsv31::Model model = open_model(a->model);
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
      const int threads = model.runtime().threads();
      const double bandwidth = read_bandwidth(threads);
      const double kv = static_cast<double>(info.cache_bytes_per_token) * (a->model.exact ? 2 : 1) *
                        (static_cast<double>(a->depth + a->prompt) + static_cast<double>(a->generate) / 2);
      const double bytes = static_cast<double>(info.active_bytes) + kv;
      const double prefill = median(prefill_tps), tps = median(decode_tps), share = bytes * tps / bandwidth;
      if (a->json)
        std::printf(
            "{\"prefill_tps\": %s, \"decode_tps\": %s, \"threads\": %d, \"isa\": %s, \"bytes_per_token\": %s, "
            "\"read_bandwidth\": %s, "
            "\"bandwidth_share\": %s, \"logits_hash\": \"%s\"}\n",
            number(prefill).c_str(), number(tps).c_str(), threads, json_string(model.runtime().isa()).c_str(),
            number(bytes).c_str(), number(bandwidth).c_str(), number(share).c_str(), hash.c_str());
      else
        std::printf(
            "prefill  %8.1f tokens/s (%ld tokens after %ld)\ndecode   %8.1f tokens/s (%.1f MB a token, %.0f %% of the %.1f GB/s "
            "that %d threads read)\n"
            "logits   %s\n",
            prefill, a->prompt, a->depth, tps, bytes / 1e6, 100 * share, bandwidth / 1e9, threads, hash.c_str());
    };
  });
}

}  // namespace cli
