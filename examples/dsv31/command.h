// What the subcommands of the command line share: arguments of a model, opening it with a progress bar, numbers in and out.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dsv31/dsv31.h"

namespace cli {

// A mistake in the arguments: one line on stderr, exit status 2.
struct UsageError {
  std::string text;
};

// The command has printed what is wrong: exit status 1 and not a word more.
struct Failed {};

struct ModelArgs {
  std::string path, isa, backend;
  int threads = 0;
  bool exact = false, relaxed = false, strict = false;
  long chunk = 512, context = 0;

  void add_to(CLI::App& app);
  void add_compute_to(CLI::App& app);
  dsv31::RuntimeOptions runtime() const;
  dsv31::ComputeOptions compute() const;
};

// Opens the model; shows a bar on stderr while it reads, where stderr is a terminal.
dsv31::Model open_model(const ModelArgs& args, bool mtp = false, bool count_experts = false);
// A bar for the prefill of a long prompt, or nothing where stderr is no terminal.
dsv31::Progress progress_bar(std::string_view label);

struct SamplerArgs {
  double temp = 0.8, top_p = 0.95, min_p = 0.05, repeat_penalty = 1;
  int top_k = 40;
  unsigned long long seed = 0;

  void add_to(CLI::App& app);
  dsv31::SamplerOptions options() const;
};

// What tokens attend to, by mode.
struct WindowArgs {
  long window = 0, think_window = -1, sinks = 4;

  void add_to(CLI::App& app);
  dsv31::AttentionWindow of(bool thinking) const;
};

struct DraftArgs {
  dsv31::Draft draft = dsv31::Draft::none;
  int most = 3;
  bool stats = false;

  void add_to(CLI::App& app);
  void apply(dsv31::GenerateOptions& options) const;
  bool mtp() const { return draft == dsv31::Draft::mtp; }
};
// One line on stderr: tokens, their speed, steps of the model, and how drafts went.
void print_stats(std::size_t tokens, std::int64_t steps, const dsv31::DraftStats& drafts, double seconds);
// "92 % of 120, 80 % of 96": the share of drafts that stood, one, two, ... tokens ahead.
std::string acceptance(const dsv31::DraftStats& drafts);

struct DraftBench {
  std::string text;
  DraftArgs draft;
  long generate = 64, repeat = 5;
  bool json = false;
};
// Decode speed with drafts and without, greedily after a text: medians of interleaved rounds.
void bench_drafts(const dsv31::Model& model, const dsv31::ComputeOptions& compute, const DraftBench& args);
double median(std::vector<double> values);

// A file's bytes; "-" is stdin. Throws dsv31::Error not_found or io.
std::string read_text(const std::string& path);
void write_floats(const std::string& path, const std::vector<float>& values);
// "1,2,3"; throws UsageError naming what is no number.
std::vector<dsv31::Token> parse_tokens(const std::string& list);
std::string json_string(std::string_view text);
// Shortest text that reads back as the same number.
std::string number(double value);
// FNV-1a of the bytes of a row of logits, as 16 hex digits.
std::string logits_hash(std::span<const float> logits);

void add_run(CLI::App& app, std::function<void()>& action);
void add_chat(CLI::App& app, std::function<void()>& action);
void add_logits(CLI::App& app, std::function<void()>& action);
void add_tokenize(CLI::App& app, std::function<void()>& action);
void add_detokenize(CLI::App& app, std::function<void()>& action);
void add_template(CLI::App& app, std::function<void()>& action);
void add_perplexity(CLI::App& app, std::function<void()>& action);
void add_bench(CLI::App& app, std::function<void()>& action);
void add_convert(CLI::App& app, std::function<void()>& action);
void add_info(CLI::App& app, std::function<void()>& action);
void add_pack(CLI::App& app, std::function<void()>& action);
void add_verify(CLI::App& app, std::function<void()>& action);

}  // namespace cli
