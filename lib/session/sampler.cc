#include "dsv31/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "lib/session/candidates.h"
#include "lib/session/philox.h"
#include "lib/session/portable_math.h"
#include "lib/session/repetition.h"

namespace dsv31::inline v1 {
namespace {

using session::Candidate;
using session::Candidates;

// What a random word is drawn for, part of the counter.
enum class Purpose : std::uint32_t { token = 0, xtc = 1 };

// In (0, 1), 53 bits: the numbers of one purpose at one position. Two neighbours come from one block of Philox.
class Noise {
 public:
  Noise(const SamplerOptions& o, std::int64_t position, Purpose purpose = Purpose::token)
      : counter_{~0u, static_cast<std::uint32_t>(position), o.stream,
                 static_cast<std::uint32_t>(purpose) << 24 | (static_cast<std::uint32_t>(position >> 32) & 0xFFFFFFu)},
        key_{static_cast<std::uint32_t>(o.seed), static_cast<std::uint32_t>(o.seed >> 32)} {}
  double of(std::int32_t index) {
    const auto i = static_cast<std::uint32_t>(index);
    if (i >> 1 != counter_[0]) {
      counter_[0] = i >> 1;
      words_ = session::philox4x32_10(counter_, key_);
    }
    const std::uint64_t bits = (i & 1) ? std::uint64_t{words_[2]} << 32 | words_[3] : std::uint64_t{words_[0]} << 32 | words_[1];
    return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
  }

 private:
  std::array<std::uint32_t, 4> counter_, words_{};
  std::array<std::uint32_t, 2> key_;
};

// A power of two above exp(x) by a quarter at least, for |x| < 700.
double power_above(double x) {
  const double exponent = x * 1.4426950408889634 + 0.35;
  const auto whole = static_cast<std::int64_t>(exponent + 1024);  // floor + 1024
  return std::bit_cast<double>(static_cast<std::uint64_t>(whole) << 52);
}

void range(bool holds, const char* field, double got, const char* expected) {
  if (!holds) throw Error(Code::argument, fmt::format("sampler.{}", field), fmt::format("got {}, expected {}", got, expected));
}

bool finite(float f) { return std::isfinite(f); }

void validate(const SamplerOptions& o, std::size_t vocab_size) {
  range(finite(o.temperature) && o.temperature >= 0, "temperature", static_cast<double>(o.temperature), "0 or more");
  range(finite(o.dynatemp_range) && o.dynatemp_range >= 0, "dynatemp_range", static_cast<double>(o.dynatemp_range), "0 or more");
  range(finite(o.dynatemp_exponent) && o.dynatemp_exponent > 0, "dynatemp_exponent", static_cast<double>(o.dynatemp_exponent),
        "above 0");
  range(o.top_p > 0 && o.top_p <= 1, "top_p", static_cast<double>(o.top_p), "above 0 and at most 1");
  range(o.min_p >= 0 && o.min_p <= 1, "min_p", static_cast<double>(o.min_p), "0 to 1");
  range(o.typical_p > 0 && o.typical_p <= 1, "typical_p", static_cast<double>(o.typical_p), "above 0 and at most 1");
  range(!std::isnan(o.top_n_sigma), "top_n_sigma", static_cast<double>(o.top_n_sigma), "a number");
  range(o.xtc_probability >= 0 && o.xtc_probability <= 1, "xtc_probability", static_cast<double>(o.xtc_probability), "0 to 1");
  range(o.xtc_threshold >= 0 && o.xtc_threshold <= 1, "xtc_threshold", static_cast<double>(o.xtc_threshold), "0 to 1");
  range(o.penalty_last_n >= -1, "penalty_last_n", o.penalty_last_n, "-1 or more");
  range(finite(o.repeat_penalty) && o.repeat_penalty > 0, "repeat_penalty", static_cast<double>(o.repeat_penalty), "above 0");
  range(finite(o.frequency_penalty), "frequency_penalty", static_cast<double>(o.frequency_penalty), "a finite number");
  range(finite(o.presence_penalty), "presence_penalty", static_cast<double>(o.presence_penalty), "a finite number");
  range(finite(o.dry_multiplier) && o.dry_multiplier >= 0, "dry_multiplier", static_cast<double>(o.dry_multiplier), "0 or more");
  range(finite(o.dry_base) && o.dry_base >= 1, "dry_base", static_cast<double>(o.dry_base), "1 or more");
  range(o.dry_allowed_length >= 1, "dry_allowed_length", o.dry_allowed_length, "1 or more");
  range(o.dry_last_n >= -1, "dry_last_n", o.dry_last_n, "-1 or more");
  range(o.mirostat >= 0 && o.mirostat <= 2, "mirostat", o.mirostat, "0, 1 or 2");
  range(finite(o.mirostat_tau) && o.mirostat_tau > 0, "mirostat_tau", static_cast<double>(o.mirostat_tau), "above 0");
  range(finite(o.mirostat_eta) && o.mirostat_eta > 0 && o.mirostat_eta <= 1, "mirostat_eta", static_cast<double>(o.mirostat_eta),
        "above 0 and at most 1");
  range(o.logit_bias.size() <= vocab_size, "logit_bias", static_cast<double>(o.logit_bias.size()), "at most one entry a token");
  for (auto [token, bias] : o.logit_bias) {
    range(token >= 0 && static_cast<std::size_t>(token) < vocab_size, "logit_bias", token, "token ids of the vocabulary");
    range(!std::isnan(bias) && bias < std::numeric_limits<float>::infinity(), "logit_bias", static_cast<double>(bias),
          "a finite number or -infinity");
  }
  for (Token t : o.dry_breakers)
    range(t >= 0 && static_cast<std::size_t>(t) < vocab_size, "dry_breakers", t, "token ids of the vocabulary");
  for (std::size_t i = 0; i < o.order.size(); ++i)
    range(std::find(o.order.begin(), o.order.begin() + static_cast<std::ptrdiff_t>(i), o.order[i]) ==
              o.order.begin() + static_cast<std::ptrdiff_t>(i),
          "order", static_cast<double>(i), "each stage at most once");
}

// Gumbel-max: argmax of logit - log(-log u), ties to the lowest id. u < 1 - 2^-54, so that the noise is below 37.5: whoever lies
// further back is out. Most others are out by 1 - u alone: logit - log(-log u) >= best takes 1 - u <= 1 - exp(-exp(logit - best))
// <= exp(logit - best), which a power of two bounds.
Token draw(const SamplerOptions& o, std::int64_t position, const std::vector<Candidate>& list) {
  float top = -std::numeric_limits<float>::infinity();
  for (const Candidate& c : list) top = std::max(top, c.logit);
  double best = -std::numeric_limits<double>::infinity();
  Token chosen = kNoToken;
  Noise noise(o, position);
  const auto compare = [&](const Candidate& c, double u) {
    const double value = static_cast<double>(c.logit) - session::portable_log(-session::portable_log(u));
    if (value > best || (value == best && c.id < chosen)) best = value, chosen = c.id;
  };
  for (const Candidate& c : list)
    if (c.logit == top) compare(c, noise.of(c.id));
  for (const Candidate& c : list) {
    const double behind = best - static_cast<double>(c.logit);
    if (c.logit == top || behind > 37.5) continue;
    const double u = noise.of(c.id);
    if (1 - u <= power_above(-behind)) compare(c, u);
  }
  return chosen;
}

}  // namespace

std::vector<SamplerStage> default_sampler_order() {
  std::vector<SamplerStage> out;
  for (auto s = SamplerStage::logit_bias; s <= SamplerStage::temperature; s = static_cast<SamplerStage>(static_cast<int>(s) + 1))
    out.push_back(s);
  return out;
}

struct Sampler::Impl {
  SamplerOptions options;
  std::size_t vocab_size;
  std::vector<Token> history;
  // mirostat's mu before the draw that followed so many accepted tokens; the last one is current
  std::vector<std::pair<std::size_t, double>> mu;
  std::vector<float> logits;
  Candidates candidates;

  void run(SamplerStage stage, std::int64_t position) {
    const SamplerOptions& o = options;
    const bool cut = o.mirostat == 0;
    switch (stage) {
      case SamplerStage::logit_bias:
      case SamplerStage::penalties:
      case SamplerStage::dry:
        break;  // on the logits, before there are candidates
      case SamplerStage::top_n_sigma:
        if (cut) candidates.top_n_sigma(o.top_n_sigma);
        break;
      case SamplerStage::top_k:
        if (cut) candidates.top_k(o.top_k);
        break;
      case SamplerStage::typical:
        if (cut) candidates.typical(o.typical_p);
        break;
      case SamplerStage::top_p:
        if (cut) candidates.top_p(o.top_p);
        break;
      case SamplerStage::min_p:
        if (cut) candidates.min_p(o.min_p);
        break;
      case SamplerStage::xtc:
        if (cut && o.xtc_probability > 0)
          candidates.xtc(o.xtc_probability, o.xtc_threshold, Noise(o, position, Purpose::xtc).of(0));
        break;
      case SamplerStage::temperature:
        if (stage != o.order.back()) candidates.settle();
        candidates.temperature(o.temperature, o.dynatemp_range, o.dynatemp_exponent);
        break;
    }
  }

  bool changes_logits() const {
    const SamplerOptions& o = options;
    return !o.logit_bias.empty() || o.repeat_penalty != 1 || o.frequency_penalty != 0 || o.presence_penalty != 0 ||
           o.dry_multiplier > 0;
  }
  void on_logits(SamplerStage stage) {
    if (stage == SamplerStage::logit_bias)
      for (auto [token, bias] : options.logit_bias) logits[static_cast<std::size_t>(token)] += bias;
    if (stage == SamplerStage::penalties) session::penalise_repetition(options, history, logits);
    if (stage == SamplerStage::dry) session::penalise_dry(options, history, logits);
  }
};

Sampler::Sampler(SamplerOptions options, std::size_t vocab_size) {
  validate(options, vocab_size);
  impl_ = std::make_unique<Impl>();
  impl_->options = std::move(options);
  impl_->vocab_size = vocab_size;
  impl_->mu.emplace_back(0, 2.0 * static_cast<double>(impl_->options.mirostat_tau));
}
Sampler::Sampler(const Sampler& o) : impl_(std::make_unique<Impl>(*o.impl_)) {}
Sampler& Sampler::operator=(const Sampler& o) {
  if (this != &o) impl_ = std::make_unique<Impl>(*o.impl_);
  return *this;
}
Sampler::Sampler(Sampler&&) noexcept = default;
Sampler& Sampler::operator=(Sampler&&) noexcept = default;
Sampler::~Sampler() = default;

const SamplerOptions& Sampler::options() const noexcept { return impl_->options; }

void Sampler::accept(Token token) { impl_->history.push_back(token); }
void Sampler::accept(std::span<const Token> tokens) { impl_->history.insert(impl_->history.end(), tokens.begin(), tokens.end()); }

void Sampler::rewind(std::size_t n) {
  if (n > impl_->history.size())
    throw Error(Code::argument, "sampler.rewind", fmt::format("got {}, expected at most {}", n, impl_->history.size()));
  impl_->history.resize(impl_->history.size() - n);
  while (impl_->mu.size() > 1 && impl_->mu.back().first > impl_->history.size()) impl_->mu.pop_back();
}

Token Sampler::sample(std::span<const float> input, std::int64_t position, std::span<const std::uint32_t> allowed) {
  Impl& me = *impl_;
  const SamplerOptions& o = me.options;
  if (input.size() != me.vocab_size)
    throw Error(Code::argument, "sampler.sample", fmt::format("got {} logits, expected {}", input.size(), me.vocab_size));
  if (!allowed.empty() && allowed.size() * 32 < me.vocab_size)
    throw Error(Code::argument, "sampler.sample",
                fmt::format("got a mask of {} bits, expected {}", allowed.size() * 32, me.vocab_size));
  if (!me.candidates.assign(input) || me.candidates.empty())
    throw Error(Code::backend, "sampler.sample", "got non-finite logits, expected numbers");
  if (me.changes_logits() || !allowed.empty()) {  // then on a copy
    me.logits.assign(input.begin(), input.end());
    for (SamplerStage s : o.order) me.on_logits(s);
    if (!allowed.empty())
      for (std::size_t i = 0; i < me.logits.size(); ++i)
        if ((allowed[i / 32] >> (i % 32) & 1u) == 0) me.logits[i] = -std::numeric_limits<float>::infinity();
    me.candidates.assign(me.logits);
  }
  if (me.candidates.empty())
    throw Error(Code::argument, "sampler.sample", "got every token banned, expected at least one allowed");
  if (o.temperature == 0) return me.candidates.likeliest();

  for (SamplerStage s : o.order) me.run(s, position);
  const double mu = me.mu.back().second;
  if (o.mirostat == 1) me.candidates.mirostat1(mu, me.vocab_size);
  if (o.mirostat == 2) me.candidates.mirostat2(mu);
  const Token chosen = draw(o, position, me.candidates.list());
  if (o.mirostat != 0) {
    double next =
        mu - static_cast<double>(o.mirostat_eta) * (me.candidates.surprise(chosen) - static_cast<double>(o.mirostat_tau));
    me.mu.emplace_back(me.history.size() + 1, next);
  }
  return chosen;
}

std::vector<TokenLogprob> Sampler::top_logprobs(std::span<const float> logits, int n) {
  std::vector<Candidate> list;
  for (std::size_t i = 0; i < logits.size(); ++i) list.push_back({static_cast<Token>(i), logits[i]});
  std::size_t k = std::min<std::size_t>(static_cast<std::size_t>(std::max(n, 0)), list.size());
  std::partial_sort(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(k), list.end(),
                    [](auto& a, auto& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; });
  std::vector<TokenLogprob> out;
  for (std::size_t i = 0; i < k; ++i) out.push_back({list[i].id, logprob(logits, list[i].id)});
  return out;
}

float Sampler::logprob(std::span<const float> logits, Token token) {
  if (token < 0 || static_cast<std::size_t>(token) >= logits.size())
    throw Error(Code::argument, "sampler.logprob", fmt::format("got token {}, expected 0 to {}", token, logits.size() - 1));
  double top = -std::numeric_limits<double>::infinity(), sum = 0;
  for (float l : logits) top = std::max(top, static_cast<double>(l));
  for (float l : logits) sum += session::portable_exp(static_cast<double>(l) - top);
  return static_cast<float>(static_cast<double>(logits[static_cast<std::size_t>(token)]) - top - session::portable_log(sum));
}

}  // namespace dsv31::inline v1
