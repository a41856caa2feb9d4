// Vectors of the compiler, four floats: the baseline of every 64-bit processor, so that this needs no choice at run time.
#include "lib/session/logit_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>

namespace dsv31::inline v1::session {
namespace {

constexpr std::size_t kWidth = 64;
constexpr float kInf = std::numeric_limits<float>::infinity();

using F4 = float __attribute__((vector_size(16)));
using I4 = std::int32_t __attribute__((vector_size(16)));

F4 load(const float* p) {
  F4 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
F4 all(float f) { return F4{f, f, f, f}; }

// Calls f(block, 64 logits); what the last block lacks is -infinity.
template <class F>
void each_block(std::span<const float> logits, F f) {
  std::size_t i = 0;
  for (; i + kWidth <= logits.size(); i += kWidth) f(i / kWidth, logits.data() + i);
  if (i == logits.size()) return;
  float rest[kWidth];
  std::fill(std::begin(rest), std::end(rest), -kInf);
  std::copy(logits.begin() + static_cast<std::ptrdiff_t>(i), logits.end(), rest);
  f(i / kWidth, rest);
}

// exp(x) for x <= 0, at least exp(-87). The remainder |r| <= 0.35 after n ln 2 is exact to 1e-7; the series to r^7 / 7! leaves
// |r|^8 / 8! < 6e-9 and rounds by 3e-7; x itself was rounded by at most 87 * 2^-24 = 5.2e-6. All relative: kSumError has room.
F4 rough_exp(F4 x) {
  x = x > all(-87.0f) ? x : all(-87.0f);
  const I4 n = __builtin_convertvector(x * 1.44269504f - 0.5f, I4);  // towards zero, from below: to nearest
  const F4 m = __builtin_convertvector(n, F4);
  const F4 r = (x - m * 0.693359375f) + m * 2.12194440e-4f;
  F4 p = r * (1.0f / 5040) + (1.0f / 720);
  p = p * r + (1.0f / 120);
  p = p * r + (1.0f / 24);
  p = p * r + (1.0f / 6);
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const I4 power = (n + 127) << 23;
  return p * std::bit_cast<F4>(power);
}

bool none_reaches(float floor, const float* x) {
  const I4 any =
      (load(x) >= all(floor)) | (load(x + 4) >= all(floor)) | (load(x + 8) >= all(floor)) | (load(x + 12) >= all(floor));
  const auto halves = std::bit_cast<std::array<std::uint64_t, 2>>(any);
  return (halves[0] | halves[1]) == 0;
}

}  // namespace

bool LogitBlocks::assign(std::span<const float> logits) {
  logits_ = logits;
  maxima_.resize((logits.size() + kWidth - 1) / kWidth);
  I4 fine = {-1, -1, -1, -1};
  each_block(logits, [&](std::size_t b, const float* x) {
    F4 top[4] = {load(x), load(x + 4), load(x + 8), load(x + 12)};
    for (const F4& t : top) fine &= t < all(kInf);
    for (std::size_t i = 16; i < kWidth; i += 16)
      for (std::size_t j = 0; j < 4; ++j) {
        const F4 v = load(x + i + 4 * j);
        fine &= v < all(kInf);  // false for NaN
        top[j] = v > top[j] ? v : top[j];
      }
    const F4 a = top[0] > top[1] ? top[0] : top[1], c = top[2] > top[3] ? top[2] : top[3], t = a > c ? a : c;
    maxima_[b] = std::max(std::max(t[0], t[1]), std::max(t[2], t[3]));
  });
  highest_ = -kInf;
  for (const float m : maxima_) highest_ = std::max(highest_, m);
  return (fine[0] & fine[1] & fine[2] & fine[3]) != 0;
}

Token LogitBlocks::first_highest() const {
  const std::size_t block = static_cast<std::size_t>(std::find(maxima_.begin(), maxima_.end(), highest_) - maxima_.begin());
  const auto from = logits_.begin() + static_cast<std::ptrdiff_t>(block * kWidth);
  return static_cast<Token>(std::find(from, logits_.end(), highest_) - logits_.begin());
}

void LogitBlocks::collect(double floor, std::vector<Candidate>& to) const {
  std::size_t count = to.size();
  float at_least = static_cast<float>(floor);  // rounded; one step down is below floor for sure
  at_least = std::max(std::nextafter(at_least, -kInf), -std::numeric_limits<float>::max());
  for (std::size_t b = 0; b < maxima_.size(); ++b) {
    if (maxima_[b] == -kInf || static_cast<double>(maxima_[b]) < floor) continue;
    const std::size_t begin = b * kWidth, end = std::min(begin + kWidth, logits_.size());
    if (count + kWidth > to.size()) to.resize(2 * count + 4 * kWidth);
    for (std::size_t i = begin; i < end; ++i) {
      if (i % 16 == 0 && i + 16 <= end && none_reaches(at_least, logits_.data() + i)) {
        i += 15;
        continue;
      }
      to[count] = {static_cast<Token>(i), logits_[i]};
      count += logits_[i] > -kInf && static_cast<double>(logits_[i]) >= floor ? 1 : 0;
    }
  }
  to.resize(count);
}

float LogitBlocks::reached_by(std::size_t n) {
  if (n == 0 || n > maxima_.size()) return -kInf;
  order_ = maxima_;
  const auto nth = order_.begin() + static_cast<std::ptrdiff_t>(n) - 1;
  std::nth_element(order_.begin(), nth, order_.end(), std::greater<float>());
  return *nth;
}

LogitBlocks::Mass LogitBlocks::rough_mass(float floor) const {
  Mass mass;
  each_block(logits_, [&](std::size_t, const float* x) {
    F4 above = {}, below = {};
    for (std::size_t i = 0; i < kWidth; i += 4) {
      const F4 l = load(x + i);
      const I4 e = std::bit_cast<I4>(rough_exp(l - highest_)), in = l >= all(floor);
      above += std::bit_cast<F4>(e & in);
      below += std::bit_cast<F4>(e & ~in);
    }
    mass.above += static_cast<double>((above[0] + above[1]) + (above[2] + above[3]));
    mass.below += static_cast<double>((below[0] + below[1]) + (below[2] + below[3]));
  });
  return mass;
}

}  // namespace dsv31::inline v1::session
