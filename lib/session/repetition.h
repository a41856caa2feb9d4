// The stages that look back: repetition penalties and DRY.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "dsv31/sampler.h"

namespace dsv31::inline v1::session {

// For tokens among the last penalty_last_n: l = l > 0 ? l / repeat : l * repeat, then l -= count * frequency + presence.
// logits (vocab_size), changed in place.
void penalise_repetition(const SamplerOptions& options, std::span<const Token> history, std::span<float> logits);

// DRY ("don't repeat yourself"): what each token would lengthen. A pair (c, L) says that the last L tokens occurred earlier,
// followed by c; L is the longest such, cut at the most recent breaker. Ascending by token. O(n) by the Z-algorithm on the
// reversed history.
std::vector<std::pair<Token, std::int32_t>> repeated_suffixes(std::span<const Token> history, std::span<const Token> breakers);
// l -= multiplier * base^(L - allowed_length) for L >= allowed_length; breakers themselves are exempt.
void penalise_dry(const SamplerOptions& options, std::span<const Token> history, std::span<float> logits);

}  // namespace dsv31::inline v1::session
