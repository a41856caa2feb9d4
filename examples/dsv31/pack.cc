#include <cstdio>
#include <memory>

#include "command.h"

namespace cli {

// dsv31 pack: one file that holds a model ready to use, or a check of such a file.
void add_pack(CLI::App& app, std::function<void()>& action) {
  struct Args {
    std::string path, out, verify;
    int threads = 0;
  };
  auto a = std::make_shared<Args>();
  CLI::App* sub = app.add_subcommand("pack", "Writes a model as one packed file, which opens by memory map");
  CLI::Option* model = sub->add_option("-m,--model", a->path, "GGUF file, or a Hugging Face folder");
  CLI::Option* out = sub->add_option("-o,--out", a->out, "The packed file");
  CLI::Option* verify = sub->add_option("--verify", a->verify, "Compare all checksums of this packed file instead");
  sub->add_option("-t,--threads", a->threads, "Worker threads; 0: all usable processors")->check(CLI::Range(0, 4096));
  model->needs(out)->excludes(verify);
  out->needs(model);
  sub->callback([&action, a] {
    action = [a] {
      if (a->path.empty() && a->verify.empty()) throw UsageError{"pack: got no model, expected -m and -o, or --verify"};
      dsv31::ModelOptions options;
      if (!a->verify.empty()) {
        options.progress = progress_bar("verifying");
        dsv31::Model::verify_file(a->verify, options);
        std::printf("%s: all checksums match\n", a->verify.c_str());
        return;
      }
      dsv31::RuntimeOptions runtime;
      runtime.threads = a->threads;
      options.progress = progress_bar("packing");
      dsv31::Model::pack(dsv31::Runtime(runtime), a->path, a->out, options);
      std::printf("%s: %llu bytes\n", a->out.c_str(), static_cast<unsigned long long>(dsv31::open_file(a->out)->size()));
    };
  });
}

}  // namespace cli
