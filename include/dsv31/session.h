// A session: one timeline of tokens with its key-value cache. Sampled tokens are the truth; nothing is ever rendered again.
//
// A session is used by one thread at a time; different sessions may be used from different threads. advance_all() moves many
// sessions of one model in one step, which costs little more than one of them. A session keeps its model alive.
//
// What a session computes depends on its tokens alone, and on the attention window that each was added under: not on threads,
// chunks, other sessions, forks or rewinds (unless relaxed).
// A call that throws (cancelled included) leaves the timeline as it was before the call's last complete step: whole prompt chunks
// stay, nothing is half written.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsv31/attention_window.h"
#include "dsv31/error.h"
#include "dsv31/export.h"
#include "dsv31/model.h"
#include "dsv31/sampler.h"

namespace dsv31::inline v1 {

enum class Finish {
  end_of_generation,  // the model ended its turn
  stop_string,        // one of the stop strings appeared
  length,             // max_tokens
  context_full,       // no room for another token: no error
  stopped,            // the callback returned false; the tokens stay
  cancelled,          // the CancelToken was set; the tokens so far stay
};
DSV31_API std::string_view to_string(Finish finish) noexcept;

struct TokenEvent {
  Token token = kNoToken;               // kNoToken: only text that had been held back at the end
  std::string_view text{};              // whole characters that this token completed, stop strings held back; may be empty
  float logprob = 0;                    // of the raw logits, when logprobs >= 0
  std::span<const TokenLogprob> top{};  // when logprobs > 0
};

// Who guesses tokens ahead, so that one step can settle several. A guess stands when it is the token that the model draws at its
// position: the output is the same with any of them, greedy and sampled.
enum class Draft {
  none,
  mtp,    // the model's own layer for it: needs ModelOptions::mtp and a model that has it (else unsupported)
  ngram,  // what followed the last tokens where they stood before
};

struct GenerateOptions {
  std::int64_t max_tokens = -1;  // -1: until the model stops or the context is full
  SamplerOptions sampler{};
  std::vector<std::string> stop{};  // at most 64; not part of the text; found across token borders
  bool ignore_end_of_generation = false;
  bool special_in_text = false;  // show special tokens in the text
  int logprobs = -1;             // -1: none; 0: of the token; n: and of the n most likely, at most 20
  // Host's own processors: may change logits (vocab_size) in place before the sampler sees them.
  std::function<void(std::span<float> logits, std::span<const Token> timeline)> processor{};
  const CancelToken* cancel = nullptr;
  Draft draft = Draft::none;
  int draft_max = 3;  // tokens ahead at most, 1 to 16
  // What one more draft costs, its guessing included, as a share of a step without drafts. As many are made as their running
  // acceptance pays for, at times none. -1: measured while the session generates; 0: always draft_max.
  double draft_cost = -1;
  // Decides instead, if given: how many drafts after `position` tokens, 0 to draft_max.
  std::function<int(std::int64_t position)> draft_gate{};
};

struct DraftCount {
  std::int64_t proposed = 0, accepted = 0;
};

// How drafts went. Tokens do not depend on it, but the counts of two runs may differ where the cost is measured.
struct DraftStats {
  std::vector<DraftCount> positions;  // of the first, second, ... token ahead
  double cost = 0;                    // of one more draft, as last measured or as given
  std::int64_t off = 0;               // steps for which drafting was switched off, as no draft paid
};

struct GenerateResult {
  std::vector<Token> tokens;
  std::string text;
  Finish finish = Finish::length;
  std::int64_t prompt_tokens = 0;  // in the timeline before generation
  std::int64_t steps = 0;          // of the model, for the tokens after the first
  DraftStats drafts;               // where GenerateOptions::draft asks for them
};

struct AppendOptions {
  Progress progress{};  // Stage::prefill, tokens
  const CancelToken* cancel = nullptr;
  // Logits of the draft layer (ModelOptions::mtp; else unsupported), (rows, vocab_size): row `first` is of the timeline's
  // position `first` and the token after it, and predicts the one after that. Ascending, for all positions that the layer had not
  // read before and whose next token is there.
  std::function<void(std::int64_t first, std::span<const float> rows)> draft_sink{};
};

class DSV31_API Session {
 public:
  explicit Session(const Model& model, const ComputeOptions& compute = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  // Computes the tokens and adds them to the timeline. Throws limit (naming both counts) when they do not fit; argument for an id
  // outside the vocabulary; nothing is added then.
  void append(std::span<const Token> tokens, const AppendOptions& options = {});
  // The same, giving the logits of each of the tokens, (tokens, vocab_size), in calls of consecutive rows.
  using RowSink = std::function<void(std::int64_t first, std::span<const float> rows)>;
  void append(std::span<const Token> tokens, const RowSink& sink, const AppendOptions& options = {});

  // Logits after the last token, (vocab_size), valid until the session is used again. Throws argument while the timeline is
  // empty. After rewind or sync they are computed on demand.
  std::span<const float> logits();

  std::span<const Token> tokens() const noexcept;
  std::int64_t size() const noexcept;
  std::int64_t capacity() const noexcept;

  // Keeps the first n tokens. Throws argument when n > size().
  void rewind(std::int64_t n);
  // Makes the timeline equal to `tokens`, reusing the longest common prefix. Returns how many tokens were reused.
  std::int64_t sync(std::span<const Token> tokens, const AppendOptions& options = {});
  // The window of tokens that are added from now on, off at first. A token keeps the one in force when the call began that added
  // it (append, sync, generate, advance_all), also where it is computed again later; a change costs nothing by itself. A layer
  // with a window of its own keeps the narrower of both, and the indexer of sparse attention chooses among the keys in the window
  // and the sinks. A step then reads at most window + sinks keys a token and layer (in whole blocks of 64); the cache takes what
  // it took before. Throws argument: window outside 0 to 2^31 - 1, sinks without a window or not fewer than capacity().
  void set_attention_window(const AttentionWindow& window);
  AttentionWindow attention_window() const noexcept;
  // The one of the token at `position`. Throws argument outside the timeline.
  AttentionWindow attention_window(std::int64_t position) const;
  // How many of the first tokens see the same keys under the window in force as under their own: what the cache holds of them is
  // what adding all tokens anew would give, and of the others it is not. rewind and sync keep tokens whatever their windows: a
  // timeline is a record of what happened. rewind(same_view()) before sync makes it one of the window in force alone.
  std::int64_t same_view() const noexcept;

  // An independent session with the same timeline and window; cache blocks are shared until one of them writes.
  Session fork() const;

  // Samples until one of Finish. The callback runs on this thread after each token; returning false stops, and another call goes
  // on from there. At a token that ended the answer anyway the finish says so, whatever the callback returned.
  GenerateResult generate(const GenerateOptions& options, const std::function<bool(const TokenEvent&)>& callback = {});

  const Model& model() const noexcept;

  struct Impl;

 private:
  friend DSV31_API void advance_all(std::span<struct Advance> items, const CancelToken* cancel);
  explicit Session(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

// One step for many sessions of one model (each at most once): every session computes its tokens, all rows together. At most
// ComputeOptions::chunk rows a step are computed at once; longer lists take several. Afterwards logits() of each is ready.
// All or nothing: when it throws, every session is as before.
struct Advance {
  Session* session = nullptr;
  std::span<const Token> tokens{};
};
DSV31_API void advance_all(std::span<Advance> items, const CancelToken* cancel = nullptr);

}  // namespace dsv31::inline v1
