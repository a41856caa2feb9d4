// The suites of dsv31_benchmarks. Each registers its rows; main.cc lists them.
#pragma once

#include <string>

namespace dsv31::bench {

struct Options {
  std::string tokenizer;  // tokenizer.json; empty: the small one of the tests
};

void register_kernels();
void register_attention();
void register_sampler();
void register_tokenizer(const Options& options);

}  // namespace dsv31::bench
