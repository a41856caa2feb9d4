// The tokens that are still in the race, and the stages that thin them out (model-spec, "Sampling").
//
// Each stage sees what the one before left. Sums run in a fixed order: by id until something sorts, by falling logit (ties by id)
// after that. So the outcome depends on the logits alone.
#pragma once

#include <cstdint>
#include <vector>

#include "dsv31/sampler.h"

namespace dsv31::inline v1::session {

struct Candidate {
  Token id;
  float logit;
};

class Candidates {
 public:
  std::vector<Candidate>& list() { return list_; }
  const std::vector<Candidate>& list() const { return list_; }
  // `sorted`: the list is by falling logit, ties by id.
  void reset() { list_.clear(), sorted_ = false; }

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
  void sort();
  // Probabilities by position in the list, in probabilities_.
  void normalise();
  void keep_first(std::size_t n) { list_.resize(n); }

  std::vector<Candidate> list_;
  std::vector<double> probabilities_;
  bool sorted_ = false;
};

}  // namespace dsv31::inline v1::session
