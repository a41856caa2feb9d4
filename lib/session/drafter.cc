#include "lib/session/drafter.h"

#include <algorithm>

namespace dsv31::inline v1::session {

std::uint64_t NgramDrafter::key(const Token* gram) {
  std::uint64_t k = 0;
  for (std::int64_t i = 0; i < kGram; ++i) k = (k ^ static_cast<std::uint32_t>(gram[i])) * 0x9E3779B97F4A7C15u;
  return k;
}

void NgramDrafter::propose(std::span<const Token> tokens, int k, std::vector<Token>& out) {
  const auto n = static_cast<std::int64_t>(tokens.size());
  for (; seen_ < n; ++seen_) after_[key(tokens.data() + seen_ - kGram)] = seen_;
  if (n < kGram) return;
  const auto found = after_.find(key(tokens.data() + n - kGram));
  if (found == after_.end()) return;
  const std::int64_t at = found->second;
  if (!std::equal(tokens.end() - kGram, tokens.end(), tokens.begin() + (at - kGram))) return;  // another gram of the same key
  for (std::int64_t i = at; i < n && static_cast<int>(out.size()) < k; ++i) out.push_back(tokens[static_cast<std::size_t>(i)]);
}

void MtpDrafter::propose(std::span<const Token> tokens, int k, std::vector<Token>& out) {
  const auto n = static_cast<std::int64_t>(tokens.size());
  Sampler& sampler = parts_.sampler;
  try {
    parts_.engine.draft(parts_.lane, parts_.timeline, parts_.state, k, parts_.chunk, parts_.cancel,
                        [&](std::span<const float> logits) {
                          out.push_back(sampler.sample(logits, n + static_cast<std::int64_t>(out.size())));
                          sampler.accept(out.back());
                          return out.back();
                        });
  } catch (...) {
    sampler.rewind(out.size());
    throw;
  }
  sampler.rewind(out.size());
}

void DraftCost::learn(int drafts, double seconds) {
  constexpr double kPace = 0.2, kHeldUp = 4, kDearest = 8;
  if (drafts == 0) {
    if (plain_count_ == 0)
      plain_ = seconds;
    else if (plain_count_ == 1)  // the first one may have had memory to fetch
      plain_ = std::min(plain_, seconds);
    else
      plain_ += kPace * (std::min(seconds, kHeldUp * plain_) - plain_);
    ++plain_count_;
    since_plain_ = 0;
    return;
  }
  ++since_plain_;
  if (plain_ <= 0) return;
  const double cost = std::clamp((seconds / plain_ - 1) / drafts, 0.0, kDearest);
  cost_ += kPace * (std::min(cost, kHeldUp * (cost_ + 0.05)) - cost_);
}

int DraftGate::choose(double cost) {
  int best = 0;
  double tokens = 1, all = 1, most = 1;
  for (std::size_t i = 0; i < rate_.size(); ++i) {
    all *= rate_[i];
    tokens += all;
    const double gain = tokens / (1 + cost * static_cast<double>(i + 1));
    if (gain > most) most = gain, best = static_cast<int>(i + 1);
  }
  idle_ = best > 0 ? 0 : idle_ + 1;
  return best > 0 ? best : idle_ % kProbe == 0 ? 1 : 0;
}

void DraftGate::learn(int proposed, int accepted) {
  for (int i = 0; i < std::min(proposed, accepted + 1); ++i) {
    double& rate = rate_[static_cast<std::size_t>(i)];
    rate += 0.1 * ((i < accepted ? 1.0 : 0.0) - rate);
  }
}

}  // namespace dsv31::inline v1::session
