// dsv31_benchmarks [--tokenizer=tokenizer.json] [--benchmark_filter=REGEX] [other options of Google Benchmark]
#include <benchmark/benchmark.h>

#include <cstdio>
#include <string_view>

#include "tests/benchmarks/suites.h"

int main(int argc, char** argv) {
  dsv31::bench::Options options;
  constexpr std::string_view kTokenizer = "--tokenizer=";
  benchmark::Initialize(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (const std::string_view arg = argv[i]; arg.substr(0, kTokenizer.size()) == kTokenizer) {
      options.tokenizer = arg.substr(kTokenizer.size());
    } else {
      std::fprintf(stderr, "unknown option %s\n", argv[i]);
      return 2;
    }
  }
  dsv31::bench::register_kernels();
  dsv31::bench::register_attention();
  dsv31::bench::register_sampler();
  dsv31::bench::register_tokenizer(options);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
