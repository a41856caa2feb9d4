#include <cstdio>
#include <memory>

#include "command.h"

namespace cli {
namespace {

struct Args {
  std::string model, tokenizer, ids;
  bool special = false, bos = false;
};

void add_source(CLI::App& sub, Args& a) {
  auto* m = sub.add_option("-m,--model", a.model, "GGUF file (one that holds only a vocabulary serves) or Hugging Face folder");
  sub.add_option("--tokenizer", a.tokenizer, "A tokenizer.json")->excludes(m);
}

dsv31::Tokenizer open_tokenizer(const Args& a) {
  if (a.model.empty() && a.tokenizer.empty()) throw UsageError{"got no vocabulary, expected -m MODEL or --tokenizer FILE"};
  return dsv31::Tokenizer::open(a.tokenizer.empty() ? a.model : a.tokenizer);
}

}  // namespace

// dsv31 tokenize: stdin to a JSON array of ids.
void add_tokenize(CLI::App& app, std::function<void()>& action) {
  auto a = std::make_shared<Args>();
  CLI::App* sub = app.add_subcommand("tokenize", "Turns stdin into a JSON array of token ids");
  add_source(*sub, *a);
  sub->add_flag("--special", a->special, "Control tokens in the text count as such");
  sub->add_flag("--bos", a->bos, "Put the beginning-of-sequence token first");
  sub->callback([&action, a] {
    action = [a] {
      auto tokenizer = open_tokenizer(*a);
      auto ids = tokenizer.encode(read_text("-"),
                                  {.special = a->special ? dsv31::Special::all : dsv31::Special::user_defined, .bos = a->bos});
      std::fputc('[', stdout);
      for (std::size_t i = 0; i < ids.size(); ++i) std::printf("%s%d", i ? ", " : "", ids[i]);
      std::fputs("]\n", stdout);
    };
  });
}

// dsv31 detokenize: ids to their bytes.
void add_detokenize(CLI::App& app, std::function<void()>& action) {
  auto a = std::make_shared<Args>();
  CLI::App* sub = app.add_subcommand("detokenize", "Prints the bytes of token ids");
  add_source(*sub, *a);
  sub->add_option("--ids", a->ids, "Token ids: 1,2,3")->required();
  sub->callback([&action, a] {
    action = [a] {
      auto ids = parse_tokens(a->ids);
      std::string text = open_tokenizer(*a).decode(ids);
      std::fwrite(text.data(), 1, text.size(), stdout);
    };
  });
}

}  // namespace cli
