#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "command.h"
#include "dsv31/conversation.h"

namespace cli {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

struct ChatArgs {
  ModelArgs model;
  SamplerArgs sampler;
  DraftArgs draft;
  WindowArgs window;
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

dsv31::GenerateOptions generate_options(const ChatArgs& a) {
  dsv31::GenerateOptions o;
  o.max_tokens = a.n;
  o.sampler = a.sampler.options();
  a.draft.apply(o);
  return o;
}

void say_if_full(dsv31::Finish finish, const dsv31::Session& session) {
  if (finish == dsv31::Finish::context_full)
    std::fprintf(stderr, "dsv31: the context of %lld tokens is full\n", static_cast<long long>(session.capacity()));
}

// One answer to messages in the form that the template takes them.
void answer(dsv31::Session& session, const dsv31::PromptText& prompt, const ChatArgs& a) {
  session.sync(session.model().tokenizer().encode(prompt), {.progress = progress_bar("reading")});
  const auto start = Clock::now();
  auto result = session.generate(generate_options(a), [](const dsv31::TokenEvent& e) {
    std::fwrite(e.text.data(), 1, e.text.size(), stdout);
    return std::fflush(stdout) == 0;
  });
  std::fputc('\n', stdout);
  if (a.draft.stats) print_stats(result.tokens.size(), result.steps, result.drafts, seconds_since(start));
  say_if_full(result.finish, session);
}

// Answers stream to stdout. A thought stands apart: dimmed on a terminal, on stderr where stdout is none.
class Printer {
 public:
  bool operator()(const dsv31::AnswerEvent& e) {
    using Kind = dsv31::AnswerEvent::Kind;
    if (thinking_ && e.kind != Kind::reasoning) put(out(), terminal_ ? "\x1b[0m\n\n" : "\n");
    if (!thinking_ && e.kind == Kind::reasoning && terminal_) put(out(), "\x1b[2m");
    thinking_ = e.kind == Kind::reasoning;
    switch (e.kind) {
      case Kind::reasoning:
        put(out(), e.text);
        break;
      case Kind::content:
      case Kind::arguments:
        put(stdout, e.text);
        break;
      case Kind::call_begin:
        put(stdout, "\n"), put(stdout, e.text), put(stdout, " ");
        break;
      case Kind::call_end:
        put(stdout, "\n");
        break;
      case Kind::malformed:
        std::fprintf(stderr, "\ndsv31: a malformed tool call: %.*s\n", static_cast<int>(e.reason.size()), e.reason.data());
        break;
    }
    return std::fflush(stdout) == 0;
  }
  void finish() {
    if (thinking_ && terminal_) put(out(), "\x1b[0m");
    std::fputc('\n', stdout);
    std::fflush(stdout);
  }

 private:
  std::FILE* out() const { return terminal_ ? stdout : stderr; }
  static void put(std::FILE* file, std::string_view text) { std::fwrite(text.data(), 1, text.size(), file); }
  const bool terminal_ = isatty(STDOUT_FILENO) != 0;
  bool thinking_ = false;
};

bool read_line(std::string& line) {
  line.clear();
  for (int c; (c = std::fgetc(stdin)) != EOF;) {
    if (c == '\n') return true;
    line += static_cast<char>(c);
  }
  return !line.empty();
}

void talk(const dsv31::Model& model, const ChatArgs& a) {
  const bool terminal = isatty(STDIN_FILENO) != 0;
  dsv31::ConversationOptions options;
  options.compute = a.model.compute();
  options.fast_window = a.window.of(false);
  options.thinking_window = a.window.of(true);
  if (!a.tools.empty()) options.tools = read_text(a.tools);
  dsv31::Conversation conversation(model, options);
  if (!a.system.empty()) conversation.add({.role = "system", .content = a.system});
  if (terminal) std::fprintf(stderr, "An empty line ends the conversation. /think and /fast switch the mode.\n");
  dsv31::AnswerOptions turn;
  turn.mode = a.think ? dsv31::Mode::thinking : dsv31::Mode::fast;
  turn.generate = generate_options(a);
  turn.progress = progress_bar("reading");
  std::string line;
  for (;;) {
    if (terminal) std::fprintf(stderr, "> ");
    if (!read_line(line) || line.empty()) return;
    if (line == "/think" || line == "/fast") {
      turn.mode = line == "/think" ? dsv31::Mode::thinking : dsv31::Mode::fast;
      continue;
    }
    conversation.add({.role = "user", .content = line});
    Printer print;
    const auto start = Clock::now();
    auto result = conversation.answer(turn, [&](const dsv31::AnswerEvent& e) { return print(e); });
    print.finish();
    if (a.draft.stats) print_stats(result.tokens.size(), result.steps, result.drafts, seconds_since(start));
    say_if_full(result.finish, conversation.session());
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
  a->draft.add_to(*sub);
  a->window.add_to(*sub);
  sub->add_option("--system", a->system, "System message");
  sub->add_option("--messages", a->messages, "JSON array of messages to answer once; -: stdin");
  sub->add_option("--tools", a->tools, "JSON array of tools, in a file");
  auto* think = sub->add_flag("--think", a->think, "Thinking mode");
  sub->add_flag("--no-think", a->no_think, "Non-thinking mode")->excludes(think);
  sub->add_option("-n,--tokens", a->n, "Tokens of an answer at most; -1: until the model stops")
      ->check(CLI::Range(-1L, 1L << 30));
  sub->add_option("-c,--context", a->model.context, "Tokens the session can hold; 0: the model's")
      ->check(CLI::Range(0L, 1L << 28));
  sub->callback([&action, a] {
    action = [a] {
      if (!a->messages.empty() && !a->system.empty())
        throw UsageError{"chat: got --system with --messages, expected the system message in the file"};
      dsv31::Model model = open_model(a->model, a->draft.mtp());
      if (a->messages.empty()) return talk(model, *a);
      const dsv31::ChatTemplate& chat = model.chat_template();
      dsv31::Session session(model, a->model.compute());
      session.set_attention_window(a->window.of(a->think));
      answer(session, chat.render_json(read_text(a->messages), chat_options(*a)), *a);
    };
  });
}

}  // namespace cli
