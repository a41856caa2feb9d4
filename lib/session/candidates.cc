#include "lib/session/candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/session/portable_math.h"

namespace dsv31::inline v1::session {
namespace {

constexpr float kHeadDepth = 10;  // below the highest logit; a token there has 1 / 22,000 of its probability

float highest(const std::vector<Candidate>& list) {
  float top = -std::numeric_limits<float>::infinity();
  for (const Candidate& c : list) top = std::max(top, c.logit);
  return top;
}

}  // namespace

bool Candidates::assign(std::span<const float> logits) {
  list_.clear();
  order_ = Order::by_id;
  whole_ = true;
  return blocks_.assign(logits);
}

void Candidates::expand() {
  if (!whole_) return;
  whole_ = false;
  blocks_.collect(-std::numeric_limits<double>::infinity(), list_);
}

Token Candidates::likeliest() const {
  if (whole_) return blocks_.first_highest();
  return std::min_element(list_.begin(), list_.end(), before)->id;
}

void Candidates::sort() {
  expand();
  if (order_ != Order::falling) std::sort(list_.begin(), list_.end(), before);
  order_ = Order::falling;
}

void Candidates::settle() {
  expand();
  if (order_ == Order::falling_due) sort();
}

void Candidates::normalise() {
  settle();
  const double top = highest(list_);
  probabilities_.resize(list_.size());
  double sum = 0;
  for (std::size_t i = 0; i < list_.size(); ++i)
    sum += probabilities_[i] = portable_exp(static_cast<double>(list_[i].logit) - top);
  for (double& p : probabilities_) p /= sum;
}

void Candidates::top_k(std::int32_t k) {
  if (k <= 0) return;
  const auto n = static_cast<std::size_t>(k);
  if (whole_) {
    const float floor = blocks_.reached_by(n + 1);  // so that there is a token to drop
    if (floor > -std::numeric_limits<float>::infinity()) {
      whole_ = false;
      blocks_.collect(static_cast<double>(floor), list_);
    }
  }
  expand();
  if (n >= list_.size()) return;
  if (order_ != Order::falling) std::nth_element(list_.begin(), list_.begin() + k - 1, list_.end(), before);
  keep_first(n);
  sort();
}

// Keeps the most likely tokens up to the one with which their sum reaches p.
void Candidates::top_p(float p) {
  if (p >= 1) return;
  const double share = static_cast<double>(p);
  if (whole_) {
    // The tail counts for its mass alone, of which a bound will do; the cut falls among the rest.
    const float floor = blocks_.highest() - kHeadDepth;
    const LogitBlocks::Mass mass = blocks_.rough_mass(floor);
    if (mass.above * (1 - 2 * LogitBlocks::kSumError) > share * (mass.above + mass.below)) {
      blocks_.collect(static_cast<double>(floor), list_);
      whole_ = false;
      if (top_p_by_mass(share, mass.below, mass.below * LogitBlocks::kSumError)) return;
      list_.clear();
      whole_ = true;
    }
  }
  expand();
  if (list_.size() < 2 || top_p_by_mass(share, 0, 0)) return;
  sort();
  normalise();
  double reached = 0;
  for (std::size_t i = 0; i < list_.size(); ++i) {
    reached += probabilities_[i];
    if (reached >= share) return keep_first(i + 1);
  }
}

// The mass by ranges of logits tells in which of them the cut falls, and only that one is sorted. `rest`, within `error`, is the
// mass of tokens below those of the list. False where the error or the order of rounding could decide.
bool Candidates::top_p_by_mass(double p, double rest, double error) {
  constexpr std::size_t kRanges = 1024;
  constexpr double kRounding = 1e-9;  // of all sums, in any order
  if (order_ != Order::by_id) return false;
  const double top = highest(list_);
  double bottom = top;
  for (const Candidate& c : list_) bottom = std::min(bottom, static_cast<double>(c.logit));
  const double scale = static_cast<double>(kRanges) / std::clamp(top - bottom, 1e-30, 64.0);
  const auto range = [&](const Candidate& c) {
    return static_cast<std::size_t>(std::min((top - static_cast<double>(c.logit)) * scale, static_cast<double>(kRanges - 1)));
  };
  probabilities_.resize(list_.size());
  double* const e = probabilities_.data();
  for (std::size_t i = 0; i < list_.size(); ++i) e[i] = static_cast<double>(list_[i].logit) - top;
  exp_of_negative(e, list_.size());
  double mass[kRanges] = {}, sum = rest;
  for (std::size_t i = 0; i < list_.size(); ++i) mass[range(list_[i])] += e[i];
  for (const double m : mass) sum += m;

  const double goal = p * sum, unsure = p * error + kRounding * sum;
  double reached = 0;
  std::size_t cut = 0;
  while (cut < kRanges && reached + mass[cut] < goal) reached += mass[cut++];
  if (std::fabs(reached - goal) <= unsure) return false;
  std::vector<Candidate> in_range;
  for (const Candidate& c : list_)
    if (range(c) == cut) in_range.push_back(c);
  if (!std::is_sorted(in_range.begin(), in_range.end(), before)) std::sort(in_range.begin(), in_range.end(), before);
  for (const Candidate& last : in_range) {
    reached += portable_exp(static_cast<double>(last.logit) - top);
    if (std::fabs(reached - goal) <= unsure) return false;
    if (reached < goal) continue;
    std::erase_if(list_, [&last](const Candidate& c) { return before(last, c); });
    order_ = Order::falling_due;
    return true;
  }
  return false;
}

void Candidates::min_p(float p) {
  if (p <= 0 || empty()) return;
  const double top = whole_ ? static_cast<double>(blocks_.highest()) : static_cast<double>(highest(list_));
  const double floor = top + portable_log(static_cast<double>(p));
  if (whole_) {
    whole_ = false;
    blocks_.collect(floor, list_);
  } else {
    std::erase_if(list_, [floor](const Candidate& c) { return static_cast<double>(c.logit) < floor; });
  }
}

// Locally typical sampling (Meister et al., 2022): the tokens whose surprise is nearest to the entropy, up to a sum above p.
void Candidates::typical(float p) {
  if (p >= 1) return;
  expand();
  if (list_.size() < 2) return;
  sort();
  normalise();
  double entropy = 0;
  for (double q : probabilities_)
    if (q > 0) entropy -= q * portable_log(q);
  std::vector<std::pair<double, std::size_t>> distance(list_.size());
  for (std::size_t i = 0; i < list_.size(); ++i)
    distance[i] = {
        probabilities_[i] > 0 ? std::fabs(-portable_log(probabilities_[i]) - entropy) : std::numeric_limits<double>::infinity(),
        i};
  std::sort(distance.begin(), distance.end());
  double reached = 0;
  std::size_t n = 0;
  while (n < distance.size() && reached <= static_cast<double>(p)) reached += probabilities_[distance[n++].second];
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < n; ++i) kept.push_back(distance[i].second);
  std::sort(kept.begin(), kept.end());
  for (std::size_t i = 0; i < n; ++i) list_[i] = list_[kept[i]];
  keep_first(n);
}

// Drops what lies more than n standard deviations of the finite logits below the highest (Tang et al., 2024).
void Candidates::top_n_sigma(float n) {
  if (n <= 0) return;
  settle();
  if (list_.size() < 2) return;
  double sum = 0, count = 0, square = 0;
  for (const Candidate& c : list_) sum += static_cast<double>(c.logit), ++count;
  const double mean = sum / count;
  for (const Candidate& c : list_) square += (static_cast<double>(c.logit) - mean) * (static_cast<double>(c.logit) - mean);
  const double floor = static_cast<double>(highest(list_)) - static_cast<double>(n) * std::sqrt(square / count);
  std::erase_if(list_, [floor](const Candidate& c) { return static_cast<double>(c.logit) < floor; });
}

// Exclude top choices: with the given probability, of the tokens at or above the threshold only the least likely stays.
void Candidates::xtc(float probability, float threshold, double u) {
  if (probability <= 0 || threshold > 0.5f || u > static_cast<double>(probability)) return;
  expand();
  if (list_.size() < 2) return;
  sort();
  normalise();
  std::size_t above = 0;
  while (above < list_.size() && probabilities_[above] >= static_cast<double>(threshold)) ++above;
  if (above > 1) list_.erase(list_.begin(), list_.begin() + static_cast<std::ptrdiff_t>(above - 1));
}

void Candidates::temperature(float t, float range, float exponent) {
  if (t <= 0 || empty()) return;
  expand();
  double value = static_cast<double>(t);
  if (range > 0 && list_.size() > 1) {
    normalise();
    double entropy = 0;
    for (double q : probabilities_)
      if (q > 0) entropy -= q * portable_log(q);
    double share = entropy / portable_log(static_cast<double>(list_.size()));
    double low = std::max(0.0, value - static_cast<double>(range)), high = value + static_cast<double>(range);
    double power = share > 0 ? portable_exp(static_cast<double>(exponent) * portable_log(share)) : 0;
    value = std::max(1e-6, low + (high - low) * power);
  }
  if (value == 1) return;
  for (Candidate& c : list_) c.logit = static_cast<float>(static_cast<double>(c.logit) / value);
}

// Basu et al., Mirostat (2021), algorithm 1 with m = 100.
void Candidates::mirostat1(double mu, std::size_t vocab_size) {
  expand();
  if (list_.size() < 2) return;
  sort();
  normalise();
  double numerator = 0, denominator = 0;
  const std::size_t m = std::min<std::size_t>(100, list_.size());
  for (std::size_t i = 0; i + 1 < m; ++i) {
    if (probabilities_[i + 1] <= 0) break;
    double t = portable_log(static_cast<double>(i + 2) / static_cast<double>(i + 1)),
           b = portable_log(probabilities_[i] / probabilities_[i + 1]);
    numerator += t * b;
    denominator += t * t;
  }
  const double s = denominator > 0 ? numerator / denominator : 1, epsilon = s - 1;
  const double log2 = 0.6931471805599453;
  double k = static_cast<double>(list_.size());
  double below = 1 - portable_exp(-epsilon * portable_log(static_cast<double>(vocab_size)));
  double inner = below != 0 ? epsilon * portable_exp(mu * log2) / below : 0;
  if (inner > 0 && s != 0) k = portable_exp(portable_log(inner) / s);
  top_k(static_cast<std::int32_t>(std::clamp(std::floor(k + 0.5), 1.0, static_cast<double>(list_.size()))));
}

// Algorithm 2: drops every token more surprising than mu, but for the likeliest.
void Candidates::mirostat2(double mu) {
  expand();
  if (list_.size() < 2) return;
  sort();
  normalise();
  const double floor = portable_exp(-mu * 0.6931471805599453);
  std::size_t n = 1;
  while (n < list_.size() && probabilities_[n] >= floor) ++n;
  keep_first(n);
}

double Candidates::surprise(Token id) const {
  const double top = highest(list_);
  double sum = 0, mine = 0;
  for (const Candidate& c : list_) {
    double e = portable_exp(static_cast<double>(c.logit) - top);
    sum += e;
    if (c.id == id) mine = e;
  }
  return mine > 0 ? -portable_log(mine / sum) / 0.6931471805599453 : std::numeric_limits<double>::infinity();
}

}  // namespace dsv31::inline v1::session
