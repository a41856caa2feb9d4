// dsv31: the command line. Results go to stdout, everything else to stderr. Exit status 0, 2 for wrong usage, 1 for the rest.
#include <cstdio>
#include <exception>

#include "command.h"

int main(int argc, char** argv) {
  CLI::App app{"Runs DeepSeek-V3.1-class and small language models.", "dsv31"};
  app.set_version_flag("--version", [] {
    return std::to_string(DSV31_VERSION_MAJOR) + "." + std::to_string(DSV31_VERSION_MINOR) + "." +
           std::to_string(DSV31_VERSION_PATCH);
  });
  app.require_subcommand(1);
  std::function<void()> action;
  for (auto add : {cli::add_run, cli::add_chat, cli::add_logits, cli::add_tokenize, cli::add_detokenize, cli::add_template,
                   cli::add_perplexity, cli::add_convert, cli::add_bench, cli::add_info, cli::add_pack, cli::add_verify})
    add(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    std::fprintf(stderr, "dsv31: %s\n", e.what());
    return 2;
  }
  try {
    action();
    if (std::fflush(stdout) != 0) {
      std::fprintf(stderr, "dsv31: [stdout] got a write error, expected to write the result\n");
      return 1;
    }
    return 0;
  } catch (const cli::Failed&) {
    std::fflush(stdout);
  } catch (const cli::UsageError& e) {
    std::fprintf(stderr, "dsv31: %s\n", e.text.c_str());
    return 2;
  } catch (const dsv31::Error& e) {
    std::fprintf(stderr, "dsv31: %s\n", e.what());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "dsv31: %s\n", e.what());
  }
  return 1;
}
