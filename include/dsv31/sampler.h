// From logits to a token: a chain of stages in an order of the caller's choice, ending in one draw.
//
// The draw is Gumbel-max: token = argmax(logit'_i + g(seed, stream, position, i)) over the candidates that the chain left, with g
// from Philox4x32-10 (Salmon et al., 2011). No sort and no order of candidates enters, so that the same seed gives the same
// tokens on every machine, with any number of threads. temperature 0 is argmax; ties go to the lowest id.
//
// A Sampler holds the state that the stages need (recent tokens, mirostat's mu). One per sequence; not thread-safe; copyable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dsv31/error.h"
#include "dsv31/export.h"
#include "dsv31/tokenizer.h"

namespace dsv31::inline v1 {

enum class SamplerStage : std::uint8_t {
  logit_bias,
  penalties,
  dry,
  top_n_sigma,
  top_k,
  typical,
  top_p,
  min_p,
  xtc,
  temperature,
};

// llama.cpp's order: that of the enumerators.
DSV31_API std::vector<SamplerStage> default_sampler_order();

struct SamplerOptions {
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;  // an independent draw for each fork or choice of one seed

  float temperature = 0.8f;  // >= 0; 0: argmax
  float dynatemp_range = 0;  // temperature +- range by the entropy of the candidates; 0: off
  float dynatemp_exponent = 1;
  std::int32_t top_k = 40;     // <= 0: off
  float top_p = 0.95f;         // (0, 1]; 1: off
  float min_p = 0.05f;         // [0, 1]; 0: off
  float typical_p = 1;         // (0, 1]; 1: off
  float top_n_sigma = -1;      // <= 0: off
  float xtc_probability = 0;   // [0, 1]; 0: off
  float xtc_threshold = 0.1f;  // above 0.5: off

  std::int32_t penalty_last_n = 64;  // tokens looked back on, prompt included; 0: off, -1: all
  float repeat_penalty = 1;          // > 0; 1: off
  float frequency_penalty = 0, presence_penalty = 0;

  float dry_multiplier = 0;  // 0: off
  float dry_base = 1.75f;
  std::int32_t dry_allowed_length = 2;
  std::int32_t dry_last_n = 64;       // -1: all
  std::vector<Token> dry_breakers{};  // tokens that end a repetition

  int mirostat = 0;  // 0 off, 1, 2; replaces top_k .. xtc
  float mirostat_tau = 5, mirostat_eta = 0.1f;

  std::vector<std::pair<Token, float>> logit_bias{};  // added first; -infinity bans
  // Stages left out are off.
  std::vector<SamplerStage> order = default_sampler_order();

  static SamplerOptions greedy() {
    SamplerOptions o;
    o.temperature = 0;
    return o;
  }
};

struct TokenLogprob {
  Token token = kNoToken;
  float logprob = 0;  // log-softmax of the raw logits
};

class DSV31_API Sampler {
 public:
  // Throws argument naming the field and its range.
  Sampler(SamplerOptions options, std::size_t vocab_size);
  Sampler(const Sampler&);
  Sampler& operator=(const Sampler&);
  Sampler(Sampler&&) noexcept;
  Sampler& operator=(Sampler&&) noexcept;
  ~Sampler();

  // The tokens before the next draw, for the stages that look back. accept(token) after each draw.
  void accept(Token token);
  void accept(std::span<const Token> tokens);
  // Takes back the last n accepted tokens and the state that they changed.
  void rewind(std::size_t n);

  // The token for position `position` (number of tokens before it). logits (vocab_size). allowed: a bit a token, least
  // significant bit first; empty: all allowed. Throws backend("non-finite logits") when nothing finite is left, argument when all
  // is banned.
  Token sample(std::span<const float> logits, std::int64_t position, std::span<const std::uint32_t> allowed = {});

  // The n most likely tokens of the raw logits, most likely first, ties by id.
  static std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, int n);
  static float logprob(std::span<const float> logits, Token token);

  const SamplerOptions& options() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dsv31::inline v1
