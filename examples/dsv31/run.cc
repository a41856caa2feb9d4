#include <chrono>
#include <cstdio>
#include <memory>

#include "command.h"

namespace cli {

// dsv31 run: the completion of a prompt and nothing else on stdout.
void add_run(CLI::App& app, std::function<void()>& action) {
  struct Args {
    ModelArgs model;
    SamplerArgs sampler;
    DraftArgs draft;
    std::string prompt, prompt_file;
    long n = 128;
    std::vector<std::string> stop;
    bool special = false;
  };
  auto a = std::make_shared<Args>();
  CLI::App* sub = app.add_subcommand("run", "Completes a prompt");
  a->model.add_to(*sub);
  a->model.add_compute_to(*sub);
  a->sampler.add_to(*sub);
  a->draft.add_to(*sub);
  auto* prompt = sub->add_option("-p,--prompt", a->prompt, "The prompt");
  auto* file = sub->add_option("-f,--file", a->prompt_file, "A file that holds the prompt; -: stdin");
  prompt->excludes(file);
  sub->add_option("-n,--tokens", a->n, "Tokens at most; -1: until the model stops")->check(CLI::Range(-1L, 1L << 30));
  sub->add_option("-c,--context", a->model.context, "Tokens the session can hold; 0: the model's")
      ->check(CLI::Range(0L, 1L << 28));
  sub->add_option("--stop", a->stop, "Stop before this text");
  sub->add_flag("--special", a->special, "Special tokens in the prompt count as such, and are printed");
  sub->callback([&action, a, prompt, file] {
    action = [a, given = prompt->count() + file->count()] {
      if (given == 0) throw UsageError{"run: got no prompt, expected -p TEXT or -f FILE"};
      std::string text = a->prompt_file.empty() ? a->prompt : read_text(a->prompt_file);
      dsv31::Model model = open_model(a->model, a->draft.mtp());
      const dsv31::Tokenizer& tokenizer = model.tokenizer();
      auto ids = tokenizer.encode(
          text, {.special = a->special ? dsv31::Special::all : dsv31::Special::user_defined, .bos = tokenizer.adds_bos()});
      if (ids.empty()) throw UsageError{"run: got an empty prompt, expected at least one token"};
      dsv31::Session session(model, a->model.compute());
      session.append(ids, {.progress = progress_bar("reading the prompt")});
      dsv31::GenerateOptions options;
      options.max_tokens = a->n;
      options.sampler = a->sampler.options();
      options.stop = a->stop;
      options.special_in_text = a->special;
      a->draft.apply(options);
      const auto start = std::chrono::steady_clock::now();
      auto result = session.generate(options, [](const dsv31::TokenEvent& e) {
        std::fwrite(e.text.data(), 1, e.text.size(), stdout);
        return std::fflush(stdout) == 0;
      });
      std::fputc('\n', stdout);
      if (a->draft.stats)
        print_stats(result.tokens.size(), result.steps, result.drafts,
                    std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    };
  });
}

}  // namespace cli
