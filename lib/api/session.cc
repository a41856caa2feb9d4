#include "dsv31/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/api/model_impl.h"
#include "lib/session/stop_strings.h"

namespace dsv31::inline v1 {

struct Session::Impl {
  Model model;
  ComputeOptions compute;
  session::Engine* engine;
  session::Lane* lane;
  std::int64_t capacity;
  session::Timeline timeline;
  std::vector<float> logits;     // after the last token, where logits_valid
  bool logits_valid = false;

  Impl(const Model& m, const ComputeOptions& c)
      : model(m),
        compute(c),
        engine(m.impl()->engine.get()),
        lane(&engine->lane(numerics_of(c))),
        capacity(context_of(m.impl()->spec.graph, c)),
        timeline(lane->pool) {}

  ~Impl() {
    std::lock_guard lock(engine->mutex());
    timeline.clear();
  }

  void truncate(std::int64_t n) {
    std::lock_guard lock(engine->mutex());
    timeline.truncate(n);
    logits_valid = false;
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
    out.sink = [this](std::int64_t, std::span<const float> row, std::int64_t) { logits.assign(row.begin(), row.begin() + model.impl()->spec.graph.vocab_size); };
    return out;
  }

  // Computes what the timeline holds beyond its cache; what could not be computed stays in the timeline for the next try.
  void compute_pending(const AppendOptions& options) {
    if (logits_valid && timeline.cached() == timeline.size()) return;
    if (timeline.cached() == timeline.size()) {  // the cache is complete but its last logits are gone: compute the last token again
      std::lock_guard lock(engine->mutex());
      Token last = timeline.tokens().back();
      timeline.truncate(timeline.size() - 1);
      timeline.push({&last, 1});
    }
    logits_valid = false;
    session::Engine::Item it = item();
    std::function<bool(std::uint64_t, std::uint64_t)> progress;
    if (options.progress) progress = [&](std::uint64_t done, std::uint64_t total) { return options.progress(Stage::prefill, done, total); };
    engine->advance(*lane, {&it, 1}, compute.chunk, options.cancel, progress);
    logits_valid = true;
  }
};

std::string_view to_string(Finish finish) noexcept {
  switch (finish) {
    case Finish::end_of_generation: return "end_of_generation";
    case Finish::stop_string: return "stop_string";
    case Finish::length: return "length";
    case Finish::context_full: return "context_full";
    case Finish::stopped: return "stopped";
    case Finish::cancelled: return "cancelled";
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
  if (tokens.empty()) return;
  const std::int64_t before = size();
  impl_->timeline.push(tokens);
  impl_->logits_valid = false;
  try {
    impl_->compute_pending(options);
  } catch (...) {
    impl_->truncate(std::max(before, impl_->timeline.cached()));
    throw;
  }
}

void Session::append(std::span<const Token> tokens, const RowSink& sink, const AppendOptions& options) {
  impl_->check_tokens(tokens, "session.append");
  if (tokens.empty()) return;
  if (impl_->timeline.cached() != impl_->timeline.size()) impl_->compute_pending(options);
  const std::int64_t first = impl_->timeline.size();
  const std::int64_t vocab = impl_->model.impl()->spec.graph.vocab_size;
  impl_->timeline.push(tokens);
  impl_->logits_valid = false;
  try {
    session::Engine::Item it = impl_->item();
    it.all_logits = true;
    it.sink = [&, keep = it.sink](std::int64_t position, std::span<const float> row, std::int64_t stride) {
      keep(position, row, stride);
      sink(position - first, row.first(static_cast<std::size_t>(vocab)));
    };
    std::function<bool(std::uint64_t, std::uint64_t)> progress;
    if (options.progress) progress = [&](std::uint64_t done, std::uint64_t total) { return options.progress(Stage::prefill, done, total); };
    impl_->engine->advance(*impl_->lane, {&it, 1}, impl_->compute.chunk, options.cancel, progress);
    impl_->logits_valid = true;
  } catch (...) {
    impl_->truncate(std::max(first, impl_->timeline.cached()));
    throw;
  }
}

std::span<const float> Session::logits() {
  if (impl_->timeline.size() == 0) throw Error(Code::argument, "session.logits", "got an empty timeline, expected at least one token");
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

Session Session::fork() const {
  auto copy = std::make_unique<Impl>(impl_->model, impl_->compute);
  {
    std::lock_guard lock(impl_->engine->mutex());
    impl_->timeline.share_into(copy->timeline);
  }
  copy->logits = impl_->logits;
  copy->logits_valid = impl_->logits_valid;
  return Session(std::move(copy));
}

const Model& Session::model() const noexcept { return impl_->model; }

GenerateResult Session::generate(const GenerateOptions& options, const std::function<bool(const TokenEvent&)>& callback) {
  if (size() == 0) throw Error(Code::argument, "session.generate", "got an empty timeline, expected at least one token");
  if (options.logprobs < -1 || options.logprobs > 20)
    throw Error(Code::argument, "generate.logprobs", fmt::format("got {}, expected -1 to 20", options.logprobs));
  if (options.max_tokens < -1) throw Error(Code::argument, "generate.max_tokens", fmt::format("got {}, expected -1 or more", options.max_tokens));
  Impl& me = *impl_;
  const bool text = me.model.has_tokenizer();
  session::StopStrings stop(options.stop);
  Sampler sampler(options.sampler, static_cast<std::size_t>(me.model.impl()->spec.graph.vocab_size));
  sampler.accept(tokens());
  std::optional<StreamDecoder> decoder;
  if (text) decoder.emplace(me.model.tokenizer(), !options.special_in_text);

  GenerateResult result;
  result.prompt_tokens = size();
  std::vector<float> processed;
  std::vector<TokenLogprob> top;
  AppendOptions pending;
  pending.cancel = options.cancel;
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
    try {
      me.compute_pending(pending);
    } catch (const Error& e) {
      if (e.code() != Code::cancelled) throw;
      result.finish = Finish::cancelled;
      break;
    }
    std::span<const float> logits = me.logits;
    if (options.processor) {
      processed.assign(logits.begin(), logits.end());
      options.processor(processed, tokens());
      logits = processed;
    }
    const Token token = sampler.sample(logits, size());
    sampler.accept(token);
    me.timeline.push({&token, 1});  // computed when the next logits are asked for
    result.tokens.push_back(token);
    const bool ended = text && !options.ignore_end_of_generation && me.model.tokenizer().is_end_of_generation(token);

    std::string piece;
    if (text && !(ended && !options.special_in_text)) piece = stop.push(decoder->push(token));
    if (ended && !stop.found()) piece += stop.push(decoder->finish());
    result.text += piece;
    if (callback) {
      TokenEvent event{token, piece, 0, {}};
      if (options.logprobs >= 0) event.logprob = Sampler::logprob(me.logits, token);
      if (options.logprobs > 0) {
        top = Sampler::top_logprobs(me.logits, options.logprobs);
        event.top = top;
      }
      if (!callback(event)) {
        result.finish = Finish::stopped;
        break;
      }
    }
    if (stop.found()) {
      result.finish = Finish::stop_string;
      break;
    }
    if (ended) {
      result.finish = Finish::end_of_generation;
      break;
    }
  }
  me.logits_valid = me.logits_valid && me.timeline.cached() == me.timeline.size();
  if (result.finish != Finish::stop_string) {
    std::string rest;
    if (decoder) rest = stop.push(decoder->finish());
    rest += stop.finish();
    result.text += rest;
    if (callback && !rest.empty() && result.finish != Finish::stopped) callback(TokenEvent{kNoToken, rest, 0, {}});
  }
  return result;
}

void advance_all(std::span<Advance> items, const CancelToken* cancel) {
  if (items.empty()) return;
  std::vector<session::Engine::Item> work;
  std::vector<std::int64_t> before;
  Session::Impl* first = items[0].session ? items[0].session->impl_.get() : nullptr;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].session == nullptr) throw Error(Code::argument, "advance_all", fmt::format("got no session at index {}, expected one", i));
    Session::Impl& s = *items[i].session->impl_;
    if (s.lane != first->lane)
      throw Error(Code::argument, "advance_all", fmt::format("got another model or precision at index {}, expected those of index 0", i));
    for (std::size_t j = 0; j < i; ++j)
      if (items[j].session == items[i].session) throw Error(Code::argument, "advance_all", fmt::format("got one session at index {} and {}, expected each once", j, i));
    s.check_tokens(items[i].tokens, "advance_all");
  }
  for (Advance& a : items) {
    Session::Impl& s = *a.session->impl_;
    before.push_back(s.timeline.size());
    s.timeline.push(a.tokens);
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
