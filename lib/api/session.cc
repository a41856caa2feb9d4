#include "dsv31/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "lib/api/model_impl.h"
#include "lib/session/draft_state.h"
#include "lib/session/drafter.h"
#include "lib/session/stop_strings.h"

namespace dsv31::inline v1 {

struct Session::Impl {
  Model model;
  ComputeOptions compute;
  session::Engine* engine;
  session::Lane* lane;
  std::int64_t capacity;
  AttentionWindow window;  // in force; each call that adds tokens hands it to the timeline when it begins
  session::Timeline timeline;
  std::vector<float> logits;  // after the last token, where logits_valid
  bool logits_valid = false;
  std::optional<session::DraftState> draft;  // in models with a layer for it
  session::DraftCost draft_cost[2];          // measured, of Draft::mtp and Draft::ngram

  Impl(const Model& m, const ComputeOptions& c)
      : model(m),
        compute(c),
        engine(m.impl()->engine.get()),
        lane(&engine->lane(numerics_of(c))),
        capacity(context_of(m.impl()->spec.graph, c)),
        timeline(lane->pool) {
    const Graph& graph = m.impl()->spec.graph;
    if (graph.draft_begin != kNone) draft.emplace(graph.hidden_size);
  }

  ~Impl() {
    std::lock_guard lock(engine->mutex());
    timeline.clear();
  }

  void truncate(std::int64_t n) {
    std::lock_guard lock(engine->mutex());
    timeline.truncate(n);
    if (draft) draft->truncate(timeline.size(), timeline.cached());
    logits_valid = false;
  }

  // The cache past the last token held drafts that are wrong.
  void drop_drafts() {
    if (timeline.cached() <= timeline.size()) return;
    std::lock_guard lock(engine->mutex());
    timeline.uncache(timeline.size());
    if (draft) draft->truncate(timeline.size(), timeline.cached());
  }

  // States that the draft layer still needs are gone after a rewind: those positions are computed again.
  void restore_states() {
    if (!draft || draft->complete(timeline.cached())) return;
    std::lock_guard lock(engine->mutex());
    timeline.uncache(std::min(draft->cached(), timeline.cached()));
    draft->truncate(timeline.size(), timeline.cached());
    logits_valid = false;
  }

  void push(std::span<const Token> tokens) {
    timeline.set_window(window);
    timeline.push(tokens);
    logits_valid = logits_valid && tokens.empty();
  }

  void check_tokens(std::span<const Token> tokens, const char* where) const {
    const std::int64_t vocab = model.impl()->spec.graph.vocab_size;
    for (std::size_t i = 0; i < tokens.size(); ++i)
      if (tokens[i] < 0 || tokens[i] >= vocab)
        throw Error(Code::argument, where, fmt::format("got token {} at index {}, expected 0 to {}", tokens[i], i, vocab - 1));
    std::int64_t room = capacity - timeline.size();
    if (static_cast<std::int64_t>(tokens.size()) > room)
      throw Error(Code::limit, where,
                  fmt::format("got {} tokens for a session holding {}, expected at most {} (its context is {})", tokens.size(),
                              timeline.size(), room, capacity));
  }

  session::Engine::Item item() {
    session::Engine::Item out;
    out.timeline = &timeline;
    restore_states();
    if (draft) out.draft = &*draft;
    out.sink = [this](std::int64_t, std::span<const float> row, std::int64_t) {
      logits.assign(row.begin(), row.begin() + model.impl()->spec.graph.vocab_size);
    };
    return out;
  }

  // Computes what the timeline holds beyond its cache; what could not be computed stays in the timeline for the next try.
  void compute_pending(const AppendOptions& options) {
    if (logits_valid && timeline.cached() == timeline.size()) return;
    if (timeline.cached() ==
        timeline.size()) {  // the cache is complete but its last logits are gone: compute the last token again
      std::lock_guard lock(engine->mutex());
      timeline.uncache(timeline.size() - 1);
      if (draft) draft->truncate(timeline.size() - 1, timeline.cached());
    }
    logits_valid = false;
    session::Engine::Item it = item();
    it.draft_sink = draft_rows(options);
    engine->advance(*lane, {&it, 1}, compute.chunk, options.cancel, prefill_progress(options));
    logits_valid = true;
  }

  // AppendOptions::progress as the engine calls it.
  static std::function<bool(std::uint64_t, std::uint64_t)> prefill_progress(const AppendOptions& options) {
    if (!options.progress) return {};
    return [&options](std::uint64_t done, std::uint64_t total) { return options.progress(Stage::prefill, done, total); };
  }
  // AppendOptions::draft_sink as the engine calls it.
  std::function<void(std::int64_t, std::span<const float>, std::int64_t)> draft_rows(const AppendOptions& options) const {
    if (!options.draft_sink) return {};
    return [&options, vocab = static_cast<std::size_t>(model.impl()->spec.graph.vocab_size)](
               std::int64_t entry, std::span<const float> row, std::int64_t) { options.draft_sink(entry, row.first(vocab)); };
  }
  void check_draft(bool wanted, const char* where) const {
    if (wanted && !draft)
      throw Error(Code::unsupported, where, "got a model without a layer that drafts, expected one opened with mtp");
  }
};

namespace {

// The rounds of generate(): logits come from a step of the model, or from one before that already computed them behind a draft.
// After a round the cache holds the drafts, while the timeline's tokens do not: take() confirms them one by one or drops them.
class Rounds {
 public:
  Rounds(Session::Impl& session, const GenerateOptions& options, Sampler& sampler, GenerateResult& result)
      : me_(session),
        options_(options),
        result_(result),
        gate_(options.draft_max),
        cost_(session.draft_cost[options.draft == Draft::ngram]) {
    if (options.draft == Draft::ngram) drafter_ = std::make_unique<session::NgramDrafter>();
    if (options.draft == Draft::mtp)
      drafter_ = std::make_unique<session::MtpDrafter>(session::MtpDrafter::Parts{
          *me_.engine, *me_.lane, me_.timeline, *me_.draft, sampler, me_.compute.chunk, options.cancel});
    if (drafter_) result.drafts.positions.resize(static_cast<std::size_t>(options.draft_max));
    pending_.cancel = options.cancel;
  }
  ~Rounds() { settle(); }

  // Logits after the last token, (vocab_size).
  std::span<const float> logits() {
    const std::int64_t n = me_.timeline.size();
    if (ahead_ < drafts_.size() + 1 && !rows_.empty()) return row(ahead_);
    settle();
    me_.restore_states();
    const bool steps = !(me_.logits_valid && me_.timeline.cached() == n), alone = me_.timeline.cached() == n - 1;
    if (steps) ++result_.steps;
    const auto start = Clock::now();
    if (const int k = wanted(n); k > 0) drafter_->propose(me_.timeline.tokens(), k, drafts_);
    if (drafts_.empty())
      me_.compute_pending(pending_);
    else
      check();
    if (drafter_ && steps && alone)
      cost_.learn(static_cast<int>(drafts_.size()), std::chrono::duration<double>(Clock::now() - start).count());
    return drafts_.empty() ? std::span<const float>(me_.logits) : row(0);
  }

  // The next token is this one.
  void take(Token token) {
    const bool right = !rows_.empty() && ahead_ < drafts_.size() && drafts_[ahead_] == token;
    if (right) {
      ++result_.drafts.positions[ahead_].accepted;
      ++ahead_;
    } else {
      settle();
    }
    me_.timeline.push({&token, 1});
  }

  // Ends the round: what was not confirmed leaves the cache, and the session has the logits after its last token.
  void settle() {
    me_.drop_drafts();
    if (!rows_.empty()) {
      gate_.learn(static_cast<int>(drafts_.size()), static_cast<int>(ahead_));
      me_.logits.assign(row(ahead_).begin(), row(ahead_).end());
      me_.logits_valid = true;
    }
    rows_.clear();
    drafts_.clear();
    ahead_ = 0;
  }

  double cost() const { return options_.draft_cost >= 0 ? options_.draft_cost : cost_.value(); }

 private:
  using Clock = std::chrono::steady_clock;

  std::span<const float> row(std::size_t i) const {
    const auto vocab = static_cast<std::size_t>(me_.model.impl()->spec.graph.vocab_size);
    return std::span<const float>(rows_).subspan(i * vocab, vocab);
  }

  int wanted(std::int64_t n) {
    // The last token alone is to be computed, and there is room for a draft and the token after it.
    if (!drafter_ || me_.timeline.cached() != n - 1 || n < 2) return 0;
    int k = options_.draft_gate ? options_.draft_gate(n) : options_.draft_cost == 0 ? options_.draft_max : choose();
    if (options_.max_tokens >= 0)
      k = static_cast<int>(std::min<std::int64_t>(k, options_.max_tokens - static_cast<std::int64_t>(result_.tokens.size()) - 1));
    return static_cast<int>(std::clamp<std::int64_t>(std::min<std::int64_t>(k, me_.capacity - n - 1), 0, options_.draft_max));
  }

  // By expected value; says so when it turns drafting off or on again.
  int choose() {
    if (options_.draft_cost < 0 && cost_.wants_plain()) return 0;
    const bool was_off = gate_.off();
    const int k = gate_.choose(cost());
    if (gate_.off()) ++result_.drafts.off;
    const Runtime::Impl& runtime = *me_.model.runtime().impl();
    if (gate_.off() != was_off && runtime.logs(LogLevel::info))
      runtime.log(LogLevel::info, fmt::format("drafting {}: {:.0f} % of the first drafts stand, one costs {:.2f} of a step",
                                              was_off ? "on" : "off", 100 * gate_.acceptance(), cost()));
    return k;
  }

  // One step over the last token and the drafts behind it.
  void check() {
    const std::int64_t n = me_.timeline.size();
    for (std::size_t i = 0; i < drafts_.size(); ++i) ++result_.drafts.positions[i].proposed;
    session::Engine::Item it = me_.item();
    it.logits_from = n - 1;
    it.sink = [this](std::int64_t, std::span<const float> logits, std::int64_t) {
      const auto vocab = static_cast<std::ptrdiff_t>(me_.model.impl()->spec.graph.vocab_size);
      rows_.insert(rows_.end(), logits.begin(), logits.begin() + vocab);
    };
    me_.logits_valid = false;
    me_.timeline.push(drafts_);
    try {
      me_.engine->advance(*me_.lane, {&it, 1}, me_.compute.chunk, options_.cancel);
    } catch (...) {
      me_.truncate(n);
      rows_.clear();
      throw;
    }
    me_.timeline.retract(n);
  }

  Session::Impl& me_;
  const GenerateOptions& options_;
  GenerateResult& result_;
  std::unique_ptr<session::Drafter> drafter_;
  session::DraftGate gate_;
  session::DraftCost& cost_;
  AppendOptions pending_;
  std::vector<Token> drafts_;
  std::vector<float> rows_;  // (drafts + 1, vocab_size)
  std::size_t ahead_ = 0;    // drafts that turned out right
};

}  // namespace

std::string_view to_string(Finish finish) noexcept {
  switch (finish) {
    case Finish::end_of_generation:
      return "end_of_generation";
    case Finish::stop_string:
      return "stop_string";
    case Finish::length:
      return "length";
    case Finish::context_full:
      return "context_full";
    case Finish::stopped:
      return "stopped";
    case Finish::cancelled:
      return "cancelled";
  }
  return "unknown";
}

Session::Session(const Model& model, const ComputeOptions& compute) {
  check(compute);
  impl_ = std::make_unique<Impl>(model, compute);
}
Session::Session(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

void Session::append(std::span<const Token> tokens, const AppendOptions& options) {
  impl_->check_tokens(tokens, "session.append");
  impl_->check_draft(static_cast<bool>(options.draft_sink), "append.draft_sink");
  if (tokens.empty()) return;
  const std::int64_t before = size();
  impl_->push(tokens);
  try {
    impl_->compute_pending(options);
  } catch (...) {
    impl_->truncate(std::max(before, impl_->timeline.cached()));
    throw;
  }
}

void Session::append(std::span<const Token> tokens, const RowSink& sink, const AppendOptions& options) {
  impl_->check_tokens(tokens, "session.append");
  impl_->check_draft(static_cast<bool>(options.draft_sink), "append.draft_sink");
  if (tokens.empty()) return;
  if (impl_->timeline.cached() != impl_->timeline.size()) impl_->compute_pending(options);
  const std::int64_t first = impl_->timeline.size();
  const std::int64_t vocab = impl_->model.impl()->spec.graph.vocab_size;
  impl_->push(tokens);
  try {
    session::Engine::Item it = impl_->item();
    it.logits_from = first;
    it.draft_sink = impl_->draft_rows(options);
    it.sink = [&, keep = it.sink](std::int64_t position, std::span<const float> row, std::int64_t stride) {
      keep(position, row, stride);
      if (position >= first) sink(position - first, row.first(static_cast<std::size_t>(vocab)));
    };
    impl_->engine->advance(*impl_->lane, {&it, 1}, impl_->compute.chunk, options.cancel, Impl::prefill_progress(options));
    impl_->logits_valid = true;
  } catch (...) {
    impl_->truncate(std::max(first, impl_->timeline.cached()));
    throw;
  }
}

std::span<const float> Session::logits() {
  if (impl_->timeline.size() == 0)
    throw Error(Code::argument, "session.logits", "got an empty timeline, expected at least one token");
  impl_->compute_pending({});
  return impl_->logits;
}

std::span<const Token> Session::tokens() const noexcept { return impl_->timeline.tokens(); }
std::int64_t Session::size() const noexcept { return impl_->timeline.size(); }
std::int64_t Session::capacity() const noexcept { return impl_->capacity; }

void Session::rewind(std::int64_t n) {
  if (n < 0 || n > size()) throw Error(Code::argument, "session.rewind", fmt::format("got {}, expected 0 to {}", n, size()));
  if (n < size()) impl_->truncate(n);
}

std::int64_t Session::sync(std::span<const Token> tokens, const AppendOptions& options) {
  auto have = this->tokens();
  std::size_t same = 0;
  while (same < have.size() && same < tokens.size() && have[same] == tokens[same]) ++same;
  if (static_cast<std::int64_t>(tokens.size()) > impl_->capacity)
    throw Error(Code::limit, "session.sync", fmt::format("got {} tokens, expected at most {}", tokens.size(), impl_->capacity));
  rewind(static_cast<std::int64_t>(same));
  std::int64_t reused = std::min(static_cast<std::int64_t>(same), impl_->timeline.cached());
  append(tokens.subspan(same), options);
  return reused;
}

void Session::set_attention_window(const AttentionWindow& window) {
  constexpr std::int64_t kMost = INT32_MAX;  // no position lies beyond
  if (window.window < 0 || window.window > kMost)
    throw Error(Code::argument, "attention_window.window", fmt::format("got {}, expected 0 to {}", window.window, kMost));
  if (window.window == 0 && window.sinks != 0)
    throw Error(Code::argument, "attention_window.sinks", fmt::format("got {} without a window, expected 0", window.sinks));
  if (window.sinks < 0 || window.sinks >= impl_->capacity)
    throw Error(Code::argument, "attention_window.sinks",
                fmt::format("got {}, expected 0 to {}: fewer than the context's tokens", window.sinks, impl_->capacity - 1));
  impl_->window = window;
}

AttentionWindow Session::attention_window() const noexcept { return impl_->window; }

AttentionWindow Session::attention_window(std::int64_t position) const {
  if (position < 0 || position >= size())
    throw Error(Code::argument, "session.attention_window",
                fmt::format("got position {} of a timeline of {} tokens, expected one of them", position, size()));
  return impl_->timeline.window_at(position);
}

std::int64_t Session::same_view() const noexcept { return impl_->timeline.same_view(impl_->window); }

Session Session::fork() const {
  auto copy = std::make_unique<Impl>(impl_->model, impl_->compute);
  {
    std::lock_guard lock(impl_->engine->mutex());
    impl_->timeline.share_into(copy->timeline);
  }
  copy->window = impl_->window;
  copy->logits = impl_->logits;
  copy->logits_valid = impl_->logits_valid;
  copy->draft = impl_->draft;
  return Session(std::move(copy));
}

const Model& Session::model() const noexcept { return impl_->model; }

GenerateResult Session::generate(const GenerateOptions& options, const std::function<bool(const TokenEvent&)>& callback) {
  if (size() == 0) throw Error(Code::argument, "session.generate", "got an empty timeline, expected at least one token");
  if (options.logprobs < -1 || options.logprobs > 20)
    throw Error(Code::argument, "generate.logprobs", fmt::format("got {}, expected -1 to 20", options.logprobs));
  if (options.max_tokens < -1)
    throw Error(Code::argument, "generate.max_tokens", fmt::format("got {}, expected -1 or more", options.max_tokens));
  if (options.draft_max < 1 || options.draft_max > 16)
    throw Error(Code::argument, "generate.draft_max", fmt::format("got {}, expected 1 to 16", options.draft_max));
  if (options.draft_cost != -1 && !(options.draft_cost >= 0 && options.draft_cost <= 100))
    throw Error(Code::argument, "generate.draft_cost", fmt::format("got {}, expected -1, or 0 to 100", options.draft_cost));
  impl_->check_draft(options.draft == Draft::mtp, "generate.draft");
  Impl& me = *impl_;
  me.timeline.set_window(me.window);
  const bool text = me.model.has_tokenizer();
  session::StopStrings stop(options.stop);
  Sampler sampler(options.sampler, static_cast<std::size_t>(me.model.impl()->spec.graph.vocab_size));
  sampler.accept(tokens());
  std::optional<StreamDecoder> decoder;
  if (text) decoder.emplace(me.model.tokenizer(), !options.special_in_text);

  GenerateResult result;
  result.prompt_tokens = size();
  std::vector<float> processed;
  std::vector<float> before;
  std::vector<TokenLogprob> top;
  bool told_to_stop = false;
  Rounds rounds(me, options, sampler, result);
  for (;;) {
    if (options.max_tokens >= 0 && static_cast<std::int64_t>(result.tokens.size()) >= options.max_tokens) {
      result.finish = Finish::length;
      break;
    }
    if (size() >= me.capacity) {
      result.finish = Finish::context_full;
      break;
    }
    if (options.cancel && options.cancel->cancelled()) {
      result.finish = Finish::cancelled;
      break;
    }
    std::span<const float> raw;  // valid until the next round
    try {
      raw = rounds.logits();
    } catch (const Error& e) {
      if (e.code() != Code::cancelled) throw;
      result.finish = Finish::cancelled;
      break;
    }
    std::span<const float> logits = raw;
    if (options.processor) {
      processed.assign(logits.begin(), logits.end());
      options.processor(processed, tokens());
      logits = processed;
    }
    const Token token = sampler.sample(logits, size());
    sampler.accept(token);
    if (callback && options.logprobs >= 0) before.assign(raw.begin(), raw.end());  // take() may end the round that they are from
    rounds.take(token);                                                            // computed when the next logits are asked for
    result.tokens.push_back(token);
    const bool ended = text && !options.ignore_end_of_generation && me.model.tokenizer().is_end_of_generation(token);

    std::string piece;
    if (text && !(ended && !options.special_in_text)) piece = stop.push(decoder->push(token));
    if (ended && !stop.found()) piece += stop.push(decoder->finish());
    result.text += piece;
    if (callback) {
      TokenEvent event{token, piece, 0, {}};
      if (options.logprobs >= 0) event.logprob = Sampler::logprob(before, token);
      if (options.logprobs > 0) {
        top = Sampler::top_logprobs(before, options.logprobs);
        event.top = top;
      }
      told_to_stop = !callback(event);
    }
    // What ended by itself is named so, also where the callback stops at the same token: a host that generates in slices must not
    // go on behind it.
    if (stop.found()) {
      result.finish = Finish::stop_string;
      break;
    }
    if (ended) {
      result.finish = Finish::end_of_generation;
      break;
    }
    if (told_to_stop) {
      result.finish = Finish::stopped;
      break;
    }
  }
  rounds.settle();
  if (options.draft != Draft::none) result.drafts.cost = rounds.cost();
  me.logits_valid = me.logits_valid && me.timeline.cached() == me.timeline.size();
  if (result.finish != Finish::stop_string) {
    std::string rest;
    if (decoder) rest = stop.push(decoder->finish());
    rest += stop.finish();
    result.text += rest;
    if (callback && !rest.empty() && !told_to_stop) callback(TokenEvent{kNoToken, rest, 0, {}});
  }
  return result;
}

void advance_all(std::span<Advance> items, const CancelToken* cancel) {
  if (items.empty()) return;
  std::vector<session::Engine::Item> work;
  std::vector<std::int64_t> before;
  Session::Impl* first = items[0].session ? items[0].session->impl_.get() : nullptr;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].session == nullptr)
      throw Error(Code::argument, "advance_all", fmt::format("got no session at index {}, expected one", i));
    Session::Impl& s = *items[i].session->impl_;
    if (s.lane != first->lane)
      throw Error(Code::argument, "advance_all",
                  fmt::format("got another model or precision at index {}, expected those of index 0", i));
    for (std::size_t j = 0; j < i; ++j)
      if (items[j].session == items[i].session)
        throw Error(Code::argument, "advance_all", fmt::format("got one session at index {} and {}, expected each once", j, i));
    s.check_tokens(items[i].tokens, "advance_all");
  }
  for (Advance& a : items) {
    Session::Impl& s = *a.session->impl_;
    before.push_back(s.timeline.size());
    s.push(a.tokens);
    if (s.timeline.cached() == s.timeline.size()) continue;
    s.logits_valid = false;
    work.push_back(s.item());
  }
  try {
    first->engine->advance(*first->lane, work, first->compute.chunk, cancel);
  } catch (...) {
    for (std::size_t i = 0; i < items.size(); ++i) items[i].session->impl_->truncate(before[i]);
    throw;
  }
  for (Advance& a : items) {
    Session::Impl& s = *a.session->impl_;
    if (!a.tokens.empty()) s.logits_valid = true;
  }
}

}  // namespace dsv31::inline v1
