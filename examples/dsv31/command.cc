#include "command.h"

#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace cli {

void ModelArgs::add_to(CLI::App& app) {
  app.add_option("-m,--model", path, "Packed or GGUF file, or a Hugging Face folder")->required();
  app.add_option("-t,--threads", threads, "Worker threads; 0: all usable processors")->check(CLI::Range(0, 4096));
  app.add_option("--isa", isa, "Instruction set: generic, avx2, avx512, amx");
  app.add_option("--backend", backend, "Backend to prefer: reference, cpu, quantized");
  app.add_flag("--strict", strict, "With --backend: refuse ops that it does not support");
}

void ModelArgs::add_compute_to(CLI::App& app) {
  app.add_flag("--exact", exact, "float32 activations and cache, weights at their exact values");
  app.add_flag("--relaxed", relaxed, "Allow results that depend on step shapes within rounding");
  app.add_option("--chunk", chunk, "Prompt tokens computed in one step")->check(CLI::Range(1L, 4096L));
}

dsv31::RuntimeOptions ModelArgs::runtime() const {
  dsv31::RuntimeOptions o;
  o.threads = threads;
  o.isa = isa;
  o.backend = backend;
  o.strict = strict;
  o.log = [](dsv31::LogLevel, std::string_view record) {
    std::fprintf(stderr, "dsv31: %.*s\n", static_cast<int>(record.size()), record.data());
  };
  return o;
}

dsv31::ComputeOptions ModelArgs::compute() const {
  return {.exact = exact, .relaxed = relaxed, .chunk = chunk, .context = context};
}

dsv31::Progress progress_bar(std::string_view label) {
  if (!isatty(STDERR_FILENO)) return {};
  using Clock = std::chrono::steady_clock;
  return [label = std::string(label), last = Clock::now(), shown = false](dsv31::Stage, std::uint64_t done,
                                                                          std::uint64_t total) mutable {
    auto now = Clock::now();
    bool end = done >= total;
    if (now - last < std::chrono::milliseconds(100) && !(end && shown)) return true;
    last = now;
    shown = !end;
    if (end) {
      std::fprintf(stderr, "\r\033[K");
    } else {
      int filled = total > 0 ? static_cast<int>(40.0 * static_cast<double>(done) / static_cast<double>(total)) : 0;
      std::fprintf(stderr, "\r%s [%.*s%*s] %3.0f %%", label.c_str(), filled, "########################################",
                   40 - filled, "", total > 0 ? 100.0 * static_cast<double>(done) / static_cast<double>(total) : 0.0);
    }
    std::fflush(stderr);
    return true;
  };
}

dsv31::Model open_model(const ModelArgs& args, bool mtp, bool count_experts) {
  dsv31::Runtime runtime(args.runtime());
  dsv31::ModelOptions options;
  options.progress = progress_bar("loading");
  options.mtp = mtp;
  options.count_experts = count_experts;
  return dsv31::Model::open(runtime, args.path, options);
}

void SamplerArgs::add_to(CLI::App& app) {
  app.add_option("--temp", temp, "Temperature; 0: always the likeliest token");
  app.add_option("--top-k", top_k, "Keep the k likeliest tokens; 0: off");
  app.add_option("--top-p", top_p, "Keep the likeliest tokens up to this sum");
  app.add_option("--min-p", min_p, "Keep tokens at least this likely, relative to the likeliest");
  app.add_option("--repeat-penalty", repeat_penalty, "Penalty of tokens among the last 64; 1: off");
  app.add_option("--seed", seed, "Seed of the draws: the same seed gives the same text everywhere");
}

dsv31::SamplerOptions SamplerArgs::options() const {
  dsv31::SamplerOptions o;
  o.seed = seed;
  o.temperature = static_cast<float>(temp);
  o.top_k = top_k;
  o.top_p = static_cast<float>(top_p);
  o.min_p = static_cast<float>(min_p);
  o.repeat_penalty = static_cast<float>(repeat_penalty);
  return o;
}

void WindowArgs::add_to(CLI::App& app) {
  const CLI::Range tokens(0L, 2147483647L);
  app.add_option("--window", window, "Tokens that a token attends to at most; 0: all")->check(tokens);
  app.add_option("--think-window", think_window, "The same for turns in thinking mode; --window where it is not given")
      ->check(tokens);
  app.add_option("--sinks", sinks, "First tokens that a window leaves in sight")->check(tokens);
}

dsv31::AttentionWindow WindowArgs::of(bool thinking) const {
  const long size = thinking && think_window >= 0 ? think_window : window;
  return {.window = size, .sinks = size > 0 ? sinks : 0};
}

std::string read_text(const std::string& path) {
  if (path != "-") {
    auto file = dsv31::open_file(path);
    std::string out(static_cast<std::size_t>(file->size()), '\0');
    if (!out.empty()) file->read_at(0, out.data(), out.size());
    return out;
  }
  std::string out;
  char buffer[65536];
  while (std::size_t n = std::fread(buffer, 1, sizeof buffer, stdin)) out.append(buffer, n);
  return out;
}

void write_floats(const std::string& path, const std::vector<float>& values) {
  std::FILE* f = std::fopen(path.c_str(), "wb");
  bool good = f != nullptr && std::fwrite(values.data(), sizeof(float), values.size(), f) == values.size();
  if (f != nullptr) good = std::fclose(f) == 0 && good;
  if (!good) throw dsv31::Error(dsv31::Code::io, "--out", "got a write error, expected to write the file");
}

std::vector<dsv31::Token> parse_tokens(const std::string& list) {
  std::vector<dsv31::Token> out;
  const char* p = list.data();
  const char* end = p + list.size();
  while (p < end) {
    dsv31::Token t = 0;
    auto [next, error] = std::from_chars(p, end, t);
    if (error != std::errc{} || (next != end && *next != ','))
      throw UsageError{"--tokens: got something that is no id at byte " + std::to_string(p - list.data()) +
                       ", expected ids like 1,2,3"};
    out.push_back(t);
    p = next == end ? end : next + 1;
    if (next != end && p == end) throw UsageError{"--tokens: got a comma at the end, expected an id after it"};
  }
  if (out.empty()) throw UsageError{"--tokens: got no id, expected ids like 1,2,3"};
  return out;
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (u < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", u);
      out += code;
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  char text[64];
  auto [end, error] = std::to_chars(text, text + sizeof text, value);
  return error == std::errc{} ? std::string(text, end) : "null";
}

std::string logits_hash(std::span<const float> logits) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (float f : logits) {
    unsigned char bytes[4];
    std::memcpy(bytes, &f, 4);
    for (unsigned char b : bytes) h = (h ^ b) * 0x100000001b3u;
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(h));
  return text;
}

}  // namespace cli
