// The tokens that are still in the race, and the stages that thin them out (model-spec, "Sampling").
//
// Each stage sees what the one before left. Sums run in a fixed order: by id until something sorts, by falling logit (ties by id)
// after that. So the outcome depends on the logits alone.
//
// A vocabulary has 100,000 tokens and more of which a stage usually leaves a few dozen, so the first stages work on LogitBlocks
// and no list of all is made. Where a cut depends on a sum, bounds of the sum decide it; only if the cut falls between the bounds
// is the sum computed as defined. The outcome is that of sorting everything, bit for bit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dsv31/sampler.h"
#include "lib/session/logit_blocks.h"

namespace dsv31::inline v1::session {

class Candidates {
 public:
  // All tokens whose logit is not -infinity. False where a logit is NaN or +infinity.
  bool assign(std::span<const float> logits);
  bool empty() const { return whole_ ? blocks_.empty() : list_.empty(); }
  // The highest logit, ties to the lowest id. REQUIRES: not empty.
  Token likeliest() const;

  // In no order that matters.
  std::vector<Candidate>& list() { return expand(), list_; }
  const std::vector<Candidate>& list() const { return list_; }
  // Puts the list in the order that its sums run in. To be called before logits change while stages remain.
  void settle();

  void top_k(std::int32_t k);
  void top_p(float p);
  void min_p(float p);
  void typical(float p);
  void top_n_sigma(float n);
  // u in (0, 1) decides whether the stage acts.
  void xtc(float probability, float threshold, double u);
  void temperature(float t, float range, float exponent);
  // Mirostat's cuts, given mu in bits of surprise. v1 derives k from an estimate of the Zipf exponent.
  void mirostat1(double mu, std::size_t vocab_size);
  void mirostat2(double mu);

  // -log2 of the probability of a token among the list.
  double surprise(Token id) const;

 private:
  enum class Order : std::uint8_t { by_id, falling, falling_due };  // due: kept by falling logits, but not yet put so

  void expand();  // the list of all, where there is none yet
  void sort();
  bool top_p_by_mass(double p, double rest, double error);
  // Probabilities by position in the list, in probabilities_.
  void normalise();
  void keep_first(std::size_t n) { list_.resize(n); }

  LogitBlocks blocks_;
  bool whole_ = false;  // the candidates are all of blocks_, and the list is empty
  std::vector<Candidate> list_;
  std::vector<double> probabilities_;
  Order order_ = Order::by_id;
};

}  // namespace dsv31::inline v1::session
