#include "dsv31/convert.h"

#include <cstdio>
#include <map>
#include <memory>

#include "command.h"

namespace cli {

// dsv31 convert: a Hugging Face folder with its weights in another format.
void add_convert(CLI::App& app, std::function<void()>& action) {
  struct Args {
    std::string in, out;
    dsv31::WeightFormat to = dsv31::WeightFormat::fp8;
    double shard_gb = 5;
  };
  auto a = std::make_shared<Args>();
  CLI::App* sub = app.add_subcommand("convert", "Writes a model's weights in another format");
  sub->add_option("-m,--model", a->in, "Hugging Face folder")->required();
  sub->add_option("-o,--out", a->out, "The folder to make; it must be new or empty")->required();
  sub->add_option("--to", a->to, "fp8: E4M3 with a scale a block of 128 x 128, as DeepSeek ships; bf16: the reverse")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, dsv31::WeightFormat>{{"fp8", dsv31::WeightFormat::fp8}, {"bf16", dsv31::WeightFormat::bf16}}));
  sub->add_option("--shard-gb", a->shard_gb, "Gigabytes of a file, where the result is larger")->check(CLI::Range(1e-6, 1e6));
  sub->callback([&action, a] {
    action = [a] {
      dsv31::ConvertOptions options;
      options.to = a->to;
      options.shard_bytes = static_cast<std::uint64_t>(a->shard_gb * 1e9);
      options.progress = progress_bar("converting");
      const dsv31::ConvertReport r = dsv31::convert(a->in, a->out, options);
      std::printf("%lld tensors, %lld converted, %.1f MB to %.1f MB, NMSE of the converted values %.3g\n",
                  static_cast<long long>(r.tensors), static_cast<long long>(r.converted),
                  static_cast<double>(r.source_bytes) / 1e6, static_cast<double>(r.written_bytes) / 1e6, r.nmse);
    };
  });
}

}  // namespace cli
