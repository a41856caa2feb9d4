// Bytes a second of encoding and decoding, by kind of text. A text is a megabyte of varied pieces, so that what one piece leaves
// in the caches does not serve the next.
#include "dsv31/tokenizer.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "tests/benchmarks/suites.h"

namespace dsv31::bench {
namespace {

constexpr std::size_t kBytes = 1 << 20;

// The files under a folder of this repository that end so, one after the other in the order of their names.
std::string sources(const char* folder, std::string_view extension) {
  std::vector<std::filesystem::path> paths;
  for (const auto& e : std::filesystem::recursive_directory_iterator(std::filesystem::path(DSV31_SOURCE_DIR) / folder))
    if (e.path().extension() == extension) paths.push_back(e.path());
  std::sort(paths.begin(), paths.end());
  std::string out;
  for (const auto& p : paths) {
    std::ifstream f(p, std::ios::binary);
    out.append(std::istreambuf_iterator<char>(f), {});
  }
  return out;
}

std::string repeated(const std::string& s, std::size_t bytes) {
  std::string out;
  while (out.size() < bytes) out += s;
  return out;
}

// Lines of a text in random order.
std::string shuffled_lines(const std::string& s, std::mt19937& random) {
  std::vector<std::string> lines;
  for (std::size_t at = 0, end = 0; at < s.size(); at = end) {
    end = std::min(s.find('\n', at), s.size() - 1) + 1;
    lines.push_back(s.substr(at, end - at));
  }
  std::string out;
  while (out.size() < kBytes) out += lines[random() % lines.size()];
  return out;
}

std::string numbers(std::mt19937& random) {
  std::string out;
  while (out.size() < kBytes) {
    out += std::to_string(random() % 1000000) + (random() % 3 ? ", " : ".");
    if (random() % 8 == 0) out += "\n2024-" + std::to_string(1 + random() % 12) + ": $" + std::to_string(random() % 90000) + " ";
  }
  return out;
}

struct Text {
  const char* name;
  std::string bytes;
};
std::vector<Text> texts() {
  std::mt19937 random(3);
  std::vector<Text> out;
  out.push_back({"english", shuffled_lines(sources("docs", ".md") + sources("tests/data/real", ".txt"), random)});
  out.push_back({"code", repeated(sources("lib", ".cc"), kBytes)});
  out.push_back({"chinese", shuffled_lines(sources("tests/benchmarks", ".txt"), random)});
  out.push_back({"numbers", numbers(random)});
  std::string mixed;  // equal parts in runs of some hundred bytes, cut between lines
  std::vector<std::size_t> at(out.size());
  while (mixed.size() < kBytes)
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::string& s = out[i].bytes;
      const std::size_t end = std::min(s.find('\n', std::min(at[i] + 400, s.size() - 1)), s.size() - 1) + 1;
      mixed.append(s, at[i], end - at[i]);
      at[i] = end >= s.size() - 1 ? 0 : end;
    }
  out.push_back({"mixed", std::move(mixed)});
  return out;
}

}  // namespace

void register_tokenizer(const Options& options) {
  static const std::vector<Text> kTexts = texts();
  const std::string path =
      options.tokenizer.empty() ? DSV31_SOURCE_DIR "/tests/data/dsv31-tiny/tokenizer.json" : options.tokenizer;
  for (const Text& text : kTexts) {
    const auto add = [&](const char* what, auto body) {
      benchmark::RegisterBenchmark((std::string("tokenizer/") + what + "/" + text.name).c_str(), [&text, path,
                                                                                                  body](benchmark::State& s) {
        const Tokenizer tokenizer = Tokenizer::open(path);
        body(s, tokenizer, text.bytes);
        s.SetBytesProcessed(s.iterations() * static_cast<std::int64_t>(text.bytes.size()));
      })->Unit(benchmark::kMillisecond);
    };
    add("encode", [](benchmark::State& s, const Tokenizer& t, const std::string& bytes) {
      std::size_t tokens = 0;
      for (auto _ : s) tokens = t.encode(bytes).size();
      s.counters["bytes_per_token"] = static_cast<double>(bytes.size()) / static_cast<double>(tokens);
    });
    add("decode", [](benchmark::State& s, const Tokenizer& t, const std::string& bytes) {
      const std::vector<Token> ids = t.encode(bytes);
      for (auto _ : s) benchmark::DoNotOptimize(t.decode(ids).data());
    });
  }
}

}  // namespace dsv31::bench
