// Who proposes the next tokens for the model to check. A proposal is a guess about the draws to come: it decides how many of them
// one step of the model settles, never what they are.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "dsv31/runtime.h"
#include "dsv31/sampler.h"
#include "lib/session/draft_state.h"
#include "lib/session/engine.h"

namespace dsv31::inline v1::session {

class Drafter {
 public:
  virtual ~Drafter() = default;
  // At most k tokens that might follow `tokens`, into out (empty before); none if there is no idea.
  virtual void propose(std::span<const Token> tokens, int k, std::vector<Token>& out) = 0;
};

// Prompt lookup: what followed the last three tokens where they stood before, most recently. tokens only grow between calls.
class NgramDrafter final : public Drafter {
 public:
  void propose(std::span<const Token> tokens, int k, std::vector<Token>& out) override;

 private:
  static constexpr std::int64_t kGram = 3;
  static std::uint64_t key(const Token* gram);

  std::unordered_map<std::uint64_t, std::int64_t> after_;  // key of a gram -> position behind its last occurrence
  std::int64_t seen_ = kGram;                              // grams that end before this position are in after_
};

// The model's own layer for it. It draws as the session will at that position, so that the draw's noise is the same; past its
// first draft it goes on from its own state. REQUIRES: the timeline's last token is the only one outside the cache.
class MtpDrafter final : public Drafter {
 public:
  struct Parts {
    Engine& engine;
    Lane& lane;
    Timeline& timeline;
    DraftState& state;
    Sampler& sampler;
    std::int64_t chunk;
    const CancelToken* cancel;
  };
  explicit MtpDrafter(const Parts& parts) : parts_(parts) {}
  void propose(std::span<const Token> tokens, int k, std::vector<Token>& out) override;

 private:
  Parts parts_;
};

// What one more draft costs, as a share of a step without: from the times of both kinds of steps, as a running mean in which one
// step that was held up counts little. Lives as long as its session.
class DraftCost {
 public:
  // A step with this many drafts, proposing them included, took so long.
  void learn(int drafts, double seconds);
  // Whether the next step should go without drafts, to be timed: at the start, and now and then.
  bool wants_plain() const { return plain_count_ < 2 || since_plain_ >= kAgain; }
  double value() const { return cost_; }

 private:
  static constexpr int kAgain = 64;

  double plain_ = 0;    // seconds of a step without drafts
  double cost_ = 0.25;  // a guess to begin with
  int plain_count_ = 0, since_plain_ = 0;
};

// How many drafts are worth their cost: the k that gives most tokens for the time, (1 + a1 + a1 a2 + ...) / (1 + k cost), with
// a_i the running acceptance of the i-th draft once those before it were accepted. Where none pays, one is tried now and then.
class DraftGate {
 public:
  explicit DraftGate(int most) : rate_(static_cast<std::size_t>(most), 0.8) {}
  int choose(double cost);
  // Whether the last choice was that no draft pays, a trial included.
  bool off() const { return idle_ > 0; }
  double acceptance() const { return rate_[0]; }  // of the first draft
  // `accepted` of `proposed` drafts were right.
  void learn(int proposed, int accepted);

 private:
  static constexpr int kProbe = 32;

  std::vector<double> rate_;
  int idle_ = 0;
};

}  // namespace dsv31::inline v1::session
