#include <unistd.h>

#include <cstdio>
#include <memory>

#include "command.h"

namespace cli {
namespace {

struct ChatArgs {
  ModelArgs model;
  SamplerArgs sampler;
  std::string system, messages, tools;
  bool think = false, no_think = false;
  long n = -1;
};

dsv31::ChatOptions chat_options(const ChatArgs& a) {
  dsv31::ChatOptions o;
  if (a.think) o.thinking = true;
  if (a.no_think) o.thinking = false;
  if (!a.tools.empty()) o.tools = read_text(a.tools);
  return o;
}

// Makes the session hold the prompt, streams the answer to stdout and returns it.
std::string answer(dsv31::Session& session, const dsv31::PromptText& prompt, const ChatArgs& a) {
  auto ids = session.model().tokenizer().encode(prompt);
  session.sync(ids, {.progress = progress_bar("reading")});
  dsv31::GenerateOptions options;
  options.max_tokens = a.n;
  options.sampler = a.sampler.options();
  auto result = session.generate(options, [](const dsv31::TokenEvent& e) {
    std::fwrite(e.text.data(), 1, e.text.size(), stdout);
    return std::fflush(stdout) == 0;
  });
  std::fputc('\n', stdout);
  if (result.finish == dsv31::Finish::context_full) std::fprintf(stderr, "dsv31: the context of %lld tokens is full\n", static_cast<long long>(session.capacity()));
  return result.text;
}

bool read_line(std::string& line) {
  line.clear();
  for (int c; (c = std::fgetc(stdin)) != EOF;) {
    if (c == '\n') return true;
    line += static_cast<char>(c);
  }
  return !line.empty();
}

void talk(dsv31::Session& session, const ChatArgs& a) {
  const bool terminal = isatty(STDIN_FILENO) != 0;
  std::vector<dsv31::Message> history;
  if (!a.system.empty()) history.push_back({.role = "system", .content = a.system});
  if (terminal) std::fprintf(stderr, "An empty line ends the conversation.\n");
  std::string line;
  for (;;) {
    if (terminal) std::fprintf(stderr, "> ");
    if (!read_line(line) || line.empty()) return;
    history.push_back({.role = "user", .content = line});
    std::string text = answer(session, session.model().chat_template().render(history, chat_options(a)), a);
    history.push_back({.role = "assistant", .content = text});
  }
}

}  // namespace

// dsv31 chat: a conversation on the terminal, or one answer to a file of messages.
void add_chat(CLI::App& app, std::function<void()>& action) {
  auto a = std::make_shared<ChatArgs>();
  CLI::App* sub = app.add_subcommand("chat", "Talks, or answers a file of messages once");
  a->model.add_to(*sub);
  a->model.add_compute_to(*sub);
  a->sampler.add_to(*sub);
  sub->add_option("--system", a->system, "System message");
  sub->add_option("--messages", a->messages, "JSON array of messages to answer once; -: stdin");
  sub->add_option("--tools", a->tools, "JSON array of tools, in a file");
  auto* think = sub->add_flag("--think", a->think, "Thinking mode");
  sub->add_flag("--no-think", a->no_think, "Non-thinking mode")->excludes(think);
  sub->add_option("-n,--tokens", a->n, "Tokens of an answer at most; -1: until the model stops")->check(CLI::Range(-1L, 1L << 30));
  sub->add_option("-c,--context", a->model.context, "Tokens the session can hold; 0: the model's")->check(CLI::Range(0L, 1L << 28));
  sub->callback([&action, a] {
    action = [a] {
      if (!a->messages.empty() && !a->system.empty()) throw UsageError{"chat: got --system with --messages, expected the system message in the file"};
      dsv31::Model model = open_model(a->model);
      const dsv31::ChatTemplate& chat = model.chat_template();
      dsv31::Session session(model, a->model.compute());
      if (a->messages.empty()) return talk(session, *a);
      answer(session, chat.render_json(read_text(a->messages), chat_options(*a)), *a);
    };
  });
}

}  // namespace cli
