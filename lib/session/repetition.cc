#include "lib/session/repetition.h"

#include <algorithm>

#include "lib/session/portable_math.h"

namespace dsv31::inline v1::session {
namespace {

std::span<const Token> last(std::span<const Token> history, std::int32_t n) {
  if (n < 0 || static_cast<std::size_t>(n) >= history.size()) return history;
  return history.subspan(history.size() - static_cast<std::size_t>(n));
}

}  // namespace

void penalise_repetition(const SamplerOptions& o, std::span<const Token> history, std::span<float> logits) {
  if (o.penalty_last_n == 0 || (o.repeat_penalty == 1 && o.frequency_penalty == 0 && o.presence_penalty == 0)) return;
  auto window = last(history, o.penalty_last_n);
  std::vector<Token> seen(window.begin(), window.end());
  std::sort(seen.begin(), seen.end());
  for (std::size_t i = 0, j = 0; i < seen.size(); i = j) {
    while (j < seen.size() && seen[j] == seen[i]) ++j;
    if (static_cast<std::size_t>(seen[i]) >= logits.size()) continue;
    float& l = logits[static_cast<std::size_t>(seen[i])];
    l = l > 0 ? l / o.repeat_penalty : l * o.repeat_penalty;
    l -= static_cast<float>(j - i) * o.frequency_penalty + o.presence_penalty;
  }
}

std::vector<std::pair<Token, std::int32_t>> repeated_suffixes(std::span<const Token> history, std::span<const Token> breakers) {
  const std::size_t n = history.size();
  auto back = [&](std::size_t i) { return history[n - 1 - i]; };  // the history read backwards
  std::size_t limit = 0;                                          // the suffix ends at the most recent breaker
  while (limit < n && std::find(breakers.begin(), breakers.end(), back(limit)) == breakers.end()) ++limit;
  std::vector<std::pair<Token, std::int32_t>> out;
  if (limit == 0) return out;
  // z[i]: how far the backward history from i on agrees with its beginning, that is, with the suffix.
  std::vector<std::size_t> z(n, 0);
  for (std::size_t i = 1, left = 0, right = 0; i < n; ++i) {
    if (i < right) z[i] = std::min(right - i, z[i - left]);
    while (i + z[i] < n && back(z[i]) == back(i + z[i])) ++z[i];
    if (i + z[i] > right) left = i, right = i + z[i];
    if (std::size_t length = std::min(z[i], limit); length > 0) out.emplace_back(back(i - 1), static_cast<std::int32_t>(length));
  }
  std::sort(out.begin(), out.end(),
            [](auto& a, auto& b) { return a.first != b.first ? a.first < b.first : a.second > b.second; });
  out.erase(std::unique(out.begin(), out.end(), [](auto& a, auto& b) { return a.first == b.first; }), out.end());
  return out;
}

void penalise_dry(const SamplerOptions& o, std::span<const Token> history, std::span<float> logits) {
  if (o.dry_multiplier == 0 || o.dry_last_n == 0) return;
  const double most = o.dry_base > 1 ? 88.72 / portable_log(static_cast<double>(o.dry_base)) : 0;  // keeps the power finite
  for (auto [token, length] : repeated_suffixes(last(history, o.dry_last_n), o.dry_breakers)) {
    if (length < o.dry_allowed_length || static_cast<std::size_t>(token) >= logits.size()) continue;
    if (std::find(o.dry_breakers.begin(), o.dry_breakers.end(), token) != o.dry_breakers.end()) continue;
    double exponent = static_cast<double>(length - o.dry_allowed_length);
    if (most > 0) exponent = std::min(exponent, most);
    double penalty =
        static_cast<double>(o.dry_multiplier) * portable_exp(exponent * portable_log(static_cast<double>(o.dry_base)));
    logits[static_cast<std::size_t>(token)] -= static_cast<float>(std::min(penalty, 1e30));
  }
}

}  // namespace dsv31::inline v1::session
