#include "dsv31/conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "lib/session/stop_strings.h"
#include "lib/text/format_history.h"
#include "lib/text/format_parser.h"
#include "lib/text/format_table.h"

namespace dsv31::inline v1 {
namespace {

using Kind = AnswerEvent::Kind;

ChatFormat choose(const Model& model, bool tools) {
  if (model.has_chat_template()) {
    const std::string& source = model.chat_template().source();
    const ChatFormat built_in = text::format_of_template(source);
    if (!tools || text::template_reads_tools(source) || built_in == ChatFormat::detect || !text::format_row(built_in).has_tools)
      return ChatFormat::own_template;
    return built_in;
  }
  const ChatFormat built_in = text::format_of_vocabulary(model.tokenizer());
  if (built_in == ChatFormat::detect)
    throw Error(
        Code::not_found, "chat_format",
        "got a model without a chat template and without markers of a known format, expected one of them or a format by name");
  return built_in;
}

// What the sampled tokens of one answer become: events for the caller, and the result.
class Answer {
 public:
  Answer(AnswerResult& result, const std::vector<std::string>& stops, const std::function<bool(const AnswerEvent&)>& callback,
         std::size_t& ids)
      : result_(result), stop_(stops), callback_(callback), ids_(ids) {}

  void take(const AnswerEvent& e) {
    if (stop_.found()) return;
    if (e.kind == Kind::content) {
      const std::string text = stop_.push(e.text);
      result_.content += text;
      return tell({Kind::content, text, {}, e.call});
    }
    release();
    switch (e.kind) {
      case Kind::reasoning:
        result_.reasoning += e.text;
        break;
      case Kind::call_begin:
        open_ = {{}, std::string(e.text), {}};
        break;
      case Kind::arguments:
        open_.arguments += e.text;
        break;
      case Kind::call_end:
        open_.id = fmt::format("call_{}", ids_++);
        result_.tool_calls.push_back(std::move(open_));
        break;
      case Kind::malformed:
        result_.malformed.push_back({std::string(e.reason), std::string(e.text)});
        break;
      case Kind::content:
        break;
    }
    tell(e);
  }
  // What may have become a stop string and did not.
  void release() {
    if (stop_.found()) return;
    const std::string text = stop_.finish();
    result_.content += text;
    tell({Kind::content, text, {}, 0});
  }
  bool stopped() const noexcept { return stop_.found(); }
  bool refused() const noexcept { return refused_; }

 private:
  void tell(const AnswerEvent& e) {
    if (e.kind == Kind::content && e.text.empty()) return;
    if (callback_ && !refused_) refused_ = !callback_(e);
  }
  AnswerResult& result_;
  session::StopStrings stop_;
  const std::function<bool(const AnswerEvent&)>& callback_;
  std::size_t& ids_;
  ToolCall open_;
  bool refused_ = false;
};

// What the model did for one piece of an answer.
void add_run(AnswerResult& result, const GenerateResult& run) {
  result.steps += run.steps;
  result.drafts.cost = run.drafts.cost;
  result.drafts.off += run.drafts.off;
  auto& sum = result.drafts.positions;
  sum.resize(std::max(sum.size(), run.drafts.positions.size()));
  for (std::size_t i = 0; i < run.drafts.positions.size(); ++i) {
    sum[i].proposed += run.drafts.positions[i].proposed;
    sum[i].accepted += run.drafts.positions[i].accepted;
  }
}

}  // namespace

ChatFormat detect_chat_format(const Model& model) { return choose(model, false); }

struct Conversation::Impl {
  Session session;
  ConversationOptions options;
  ChatFormat format;
  text::AnswerSyntax syntax;
  std::vector<text::Turn> turns;
  std::vector<Message> messages;
  std::size_t call_ids = 0;
  // Texts of the last prompt with their tokens, so that a turn tokenises only what is new.
  std::vector<std::pair<PromptText, std::vector<Token>>> encoded;

  Impl(const Model& model, const ConversationOptions& o) : session(model, o.compute), options(o), format(o.format) {
    session.set_attention_window(options.thinking_window);  // both are looked at before a turn needs them
    session.set_attention_window(options.fast_window);
    if (format == ChatFormat::detect) format = choose(model, !o.tools.empty());
    if (options.now == 0)
      options.now = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
    syntax = format == ChatFormat::own_template ? text::syntax_of_template(model.chat_template().source(), model.tokenizer())
                                                : text::format_row(format).syntax;
  }

  const Tokenizer& tokenizer() const { return session.model().tokenizer(); }

  PromptText render(const std::vector<Message>& list, Mode mode) const {
    const ChatOptions o{.thinking = mode == Mode::thinking, .tools = options.tools, .kwargs = options.kwargs, .now = options.now};
    return format == ChatFormat::own_template ? session.model().chat_template().render(list, o) : render_chat(format, list, o);
  }

  struct Prompt {
    text::PromptLayout layout;
    std::vector<Token> tokens;
    std::vector<std::size_t> begins;  // of each piece in tokens
  };

  Prompt prompt(Mode mode) {
    Prompt p;
    p.layout = text::lay_out(turns, [&](const std::vector<Message>& list) { return render(list, mode); });
    std::size_t texts = 0;
    for (const text::PromptPiece& piece : p.layout.pieces) {
      p.begins.push_back(p.tokens.size());
      if (piece.is_text) {
        const std::vector<Token>& ids = encode(piece.text, texts++);
        p.tokens.insert(p.tokens.end(), ids.begin(), ids.end());
        continue;
      }
      const text::Turn& turn = turns[piece.turn];
      std::size_t first = piece.first;
      if (syntax.trim_thoughts && first > 0)  // the newlines after </think> went with it
        while (first < turn.tokens.size() && only_newlines(turn.tokens[first])) ++first;
      p.tokens.insert(p.tokens.end(), turn.tokens.begin() + static_cast<std::ptrdiff_t>(first), turn.tokens.end());
    }
    encoded.resize(texts);
    return p;
  }

  const std::vector<Token>& encode(const PromptText& text, std::size_t slot) {
    const auto same = [](const PromptText::Range& a, const PromptText::Range& b) { return a.begin == b.begin && a.end == b.end; };
    if (slot < encoded.size()) {
      const PromptText& have = encoded[slot].first;
      if (have.text == text.text &&
          std::equal(have.trusted.begin(), have.trusted.end(), text.trusted.begin(), text.trusted.end(), same))
        return encoded[slot].second;
    } else {
      encoded.resize(slot + 1);
    }
    encoded[slot] = {text, tokenizer().encode(text)};
    return encoded[slot].second;
  }

  bool only_newlines(Token t) const {
    const std::string s = tokenizer().piece(t);
    return !s.empty() && s.find_first_not_of("\r\n") == std::string::npos;
  }

  // Where the prompt parts from the timeline.
  std::optional<CacheReport::Miss> miss(const Prompt& p) const {
    const auto have = session.tokens();
    const auto at =
        static_cast<std::size_t>(std::mismatch(have.begin(), have.end(), p.tokens.begin(), p.tokens.end()).first - have.begin());
    if (at == have.size()) return {};
    CacheReport::Miss m;
    m.token = static_cast<std::int64_t>(at);
    const std::size_t i = static_cast<std::size_t>(std::upper_bound(p.begins.begin(), p.begins.end(), at) - p.begins.begin()) - 1;
    const auto& pieces = p.layout.pieces;
    const text::PromptPiece& piece = pieces[i];
    if (piece.is_text) {
      const std::size_t bytes = tokenizer().decode(std::span(p.tokens).subspan(p.begins[i], at - p.begins[i])).size();
      m.message = text::message_at(turns, piece, i == 0 ? 0 : pieces[i - 1].turn + 1, bytes);
    } else {
      m.message = piece.turn;
    }
    for (const text::PromptPiece& q : pieces)
      if (!q.is_text && q.turn == m.message) m.thought_dropped = turns[q.turn].has_thought && q.first > 0;
    return m;
  }

  // The tokens that end a thought.
  std::vector<Token> closing() const {
    PromptText end{syntax.trim_thoughts ? "\n</think>\n\n" : "</think>", {}};
    end.trusted.push_back({0, end.text.size()});
    return tokenizer().encode(end);
  }

  AnswerResult answer(const AnswerOptions& o, const std::function<bool(const AnswerEvent&)>& callback);
};

AnswerResult Conversation::Impl::answer(const AnswerOptions& o, const std::function<bool(const AnswerEvent&)>& callback) {
  if (o.thinking_budget < -1)
    throw Error(Code::argument, "answer.thinking_budget", fmt::format("got {}, expected -1 or more", o.thinking_budget));
  if (o.generate.max_tokens < -1)
    throw Error(Code::argument, "answer.max_tokens", fmt::format("got {}, expected -1 or more", o.generate.max_tokens));
  AnswerResult result;
  Answer events(result, o.generate.stop, callback, call_ids);
  const Prompt p = prompt(o.mode);
  result.cache.miss = miss(p);
  result.cache.rerendered = p.layout.rerendered;
  session.set_attention_window(o.mode == Mode::thinking ? options.thinking_window : options.fast_window);
  if (options.recompute_other_window) session.rewind(session.same_view());
  result.cache.reused_tokens = session.sync(p.tokens, {.progress = o.progress, .cancel = o.generate.cancel});
  result.cache.computed_tokens = static_cast<std::int64_t>(p.tokens.size()) - result.cache.reused_tokens;
  result.cache.other_window_tokens = std::max<std::int64_t>(result.cache.reused_tokens - session.same_view(), 0);

  text::Turn turn;
  turn.sampled = true;
  turn.has_thought = text::ends_in_thought(p.layout.pieces.back().text);
  text::AnswerParser parser(syntax, tokenizer(), turn.has_thought, [&](const AnswerEvent& e) { events.take(e); });
  const auto take = [&](Token token) {
    const bool before = parser.in_thought();
    result.tokens.push_back(token);
    parser.push(token);
    const bool after = parser.in_thought();
    if (before && after) ++result.reasoning_tokens;
    if (before && !after) turn.content_begin = result.tokens.size();
    if (!before && after) {
      turn.opens_thought = !turn.has_thought && result.tokens.size() == 1;
      turn.has_thought = true;
    }
  };
  const auto over_budget = [&] {
    return o.thinking_budget >= 0 && parser.in_thought() && result.reasoning_tokens >= o.thinking_budget;
  };

  GenerateOptions g = o.generate;
  g.stop.clear();
  g.special_in_text = false;
  g.ignore_end_of_generation = false;
  g.logprobs = -1;
  for (;;) {
    if (!over_budget()) {
      const GenerateResult run = session.generate(g, [&](const TokenEvent& e) {
        if (e.token == kNoToken) return true;
        take(e.token);
        return !events.stopped() && !events.refused() && !over_budget();
      });
      result.finish = run.finish;
      add_run(result, run);
      if (g.max_tokens >= 0) g.max_tokens -= static_cast<std::int64_t>(run.tokens.size());
      if (run.finish != Finish::stopped || events.stopped() || events.refused() || !over_budget()) break;
    }
    // The thought ends here; what follows is sampled as if the model had closed it.
    const std::vector<Token> close = closing();
    if (session.size() + static_cast<std::int64_t>(close.size()) > session.capacity()) {
      result.finish = Finish::context_full;
      break;
    }
    session.append(close, {.cancel = o.generate.cancel});
    for (Token t : close) take(t);
    turn.content_begin = result.tokens.size();
    result.budget_reached = true;
  }
  parser.finish();
  events.release();
  if (events.stopped()) result.finish = Finish::stop_string;

  turn.tokens = result.tokens;
  if (!turn.tokens.empty() && tokenizer().is_end_of_generation(turn.tokens.back())) turn.tokens.pop_back();
  if (parser.in_thought()) turn.content_begin = turn.tokens.size();
  turn.content_begin = std::min(turn.content_begin, turn.tokens.size());
  turn.message = {.role = "assistant", .content = result.content, .reasoning = result.reasoning, .tool_calls = result.tool_calls};
  messages.push_back(turn.message);
  turns.push_back(std::move(turn));
  return result;
}

Conversation::Conversation(const Model& model, const ConversationOptions& options)
    : impl_(std::make_unique<Impl>(model, options)) {}
Conversation::~Conversation() = default;
Conversation::Conversation(Conversation&&) noexcept = default;
Conversation& Conversation::operator=(Conversation&&) noexcept = default;

void Conversation::add(Message message) {
  if (message.role.empty()) throw Error(Code::argument, "conversation.add", "got a message without a role, expected one");
  text::Turn turn;
  turn.message = message;
  impl_->turns.push_back(std::move(turn));
  impl_->messages.push_back(std::move(message));
}

AnswerResult Conversation::answer(const AnswerOptions& options, const std::function<bool(const AnswerEvent&)>& callback) {
  return impl_->answer(options, callback);
}

const std::vector<Message>& Conversation::messages() const noexcept { return impl_->messages; }

void Conversation::truncate(std::size_t n) {
  if (n > impl_->messages.size())
    throw Error(Code::argument, "conversation.truncate", fmt::format("got {}, expected 0 to {}", n, impl_->messages.size()));
  impl_->messages.erase(impl_->messages.begin() + static_cast<std::ptrdiff_t>(n), impl_->messages.end());
  impl_->turns.erase(impl_->turns.begin() + static_cast<std::ptrdiff_t>(n), impl_->turns.end());
}

ChatFormat Conversation::format() const noexcept { return impl_->format; }
const Session& Conversation::session() const noexcept { return impl_->session; }

}  // namespace dsv31::inline v1
