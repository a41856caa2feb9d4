#include "lib/text/pair_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/text/utf8.h"

namespace dsv31::inline v1::text {

namespace {

constexpr std::size_t kShort = 48;  // symbols up to which a plain scan for the best pair beats the heap

void reserve_more(std::vector<Token>& out, std::size_t count) {
  if (out.size() + count > out.capacity()) out.reserve(std::max(out.size() + count, out.capacity() + out.capacity() / 2));
}

}  // namespace

struct PairEncoder::TablePairs {
  const std::uint32_t* lengths;
  const MergeTable& table;

  std::uint32_t length(std::uint32_t s) const noexcept { return s & slot::kPseudo ? s & ~slot::kPseudo : lengths[s]; }
  Merge find(std::size_t, std::uint32_t left, std::uint32_t right) const noexcept {
    if ((left | right) & slot::kPseudo) return {};
    return table.find(static_cast<Token>(left), static_cast<Token>(right));
  }
};

struct PairEncoder::TextPairs {
  const std::uint32_t* lengths;
  const std::uint32_t* ranks;
  const Lexicon& lexicon;
  std::string_view text;

  std::uint32_t length(std::uint32_t s) const noexcept { return s & slot::kPseudo ? s & ~slot::kPseudo : lengths[s]; }
  Merge find(std::size_t at, std::uint32_t left, std::uint32_t right) const noexcept {
    const Token id = lexicon.find(text.substr(at, length(left) + length(right)));
    return id == kNoToken ? Merge{} : Merge{ranks[static_cast<std::size_t>(id)], id};
  }
};

PairEncoder::PairEncoder(const VocabData& vocab, const Lexicon& lexicon) : vocab_(vocab), lexicon_(lexicon) {
  whole_ = std::make_unique<std::atomic<std::uint8_t>[]>(vocab.size());
  if (vocab.space_mark && lexicon.find(" ") != kNoToken) {
    cuts_at_spaces_ = true;
    for (std::size_t i = 0; i < vocab.size(); ++i) {
      const auto id = static_cast<Token>(i);
      const std::string_view s = lexicon.piece(id);
      if (lexicon.mergeable(id))
        for (std::size_t at = s.find(' ', 1); at != std::string_view::npos; at = s.find(' ', at + 1))
          joins_space_[static_cast<unsigned char>(s[at - 1])] = true;
    }
  }
  if (vocab.model == TokenModel::sentencepiece) {
    rank_scores();
    return;
  }
  std::vector<MergeRule> rules = vocab.merges;
  for (MergeRule& r : rules) {
    // A merge that involves a token which text may not become never applies; its rank stays taken.
    const bool applies = lexicon.mergeable(r.left) && lexicon.mergeable(r.right) && lexicon.mergeable(r.merged);
    if (applies && lexicon.length(r.left) + lexicon.length(r.right) == lexicon.length(r.merged)) continue;
    r = {-2, -2, kNoToken};
  }
  table_ = MergeTable(rules);
}

void PairEncoder::rank_scores() {
  for (std::size_t i = 0; i < vocab_.scores.size(); ++i)
    if (std::isnan(vocab_.scores[i]))
      throw Error(Code::format, "tokenizer", fmt::format("score of token {}: got NaN, expected a number", i));
  std::vector<Token> order(vocab_.size());
  std::iota(order.begin(), order.end(), 0);
  const auto score = [&](Token id) { return vocab_.scores[static_cast<std::size_t>(id)]; };
  std::sort(order.begin(), order.end(), [&](Token a, Token b) { return score(a) > score(b); });
  ranks_.resize(vocab_.size());
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && score(order[i]) != score(order[i - 1])) ++rank;
    ranks_[static_cast<std::size_t>(order[i])] = rank;
  }
}

void PairEncoder::encode(std::string_view piece, MergeScratch& scratch, Work& work, std::vector<Token>& out) const {
  if (!cuts_at_spaces_ || vocab_.ignore_merges) {
    if (!piece.empty()) encode_part(piece, scratch, work, out);
    return;
  }
  for (std::size_t from = 0; from < piece.size();) {
    std::size_t to = from + 1;
    while (to < piece.size() && (piece[to] != ' ' || joins_space_[static_cast<unsigned char>(piece[to - 1])])) ++to;
    encode_part(piece.substr(from, to - from), scratch, work, out);
    from = to;
  }
}

void PairEncoder::encode_part(std::string_view part, MergeScratch& scratch, Work& work, std::vector<Token>& out) const {
  const Token whole = lexicon_.find(part);
  if (whole != kNoToken &&
      (vocab_.ignore_merges || whole_[static_cast<std::size_t>(whole)].load(std::memory_order_relaxed) == kYes)) {
    out.push_back(whole);
    return;
  }
  const std::size_t before = out.size();
  const bool by_score = vocab_.model == TokenModel::sentencepiece;
  const TablePairs table{lexicon_.lengths(), table_};
  const TextPairs scores{lexicon_.lengths(), ranks_.data(), lexicon_, part};
  if (part.size() <= kShort) {
    if (by_score)
      encode_short(scores, part, work, out);
    else
      encode_short(table, part, work, out);
  } else {
    std::uint32_t* const slots = scratch.reset(part.size());
    const std::size_t symbols = load_symbols(part, slots);
    if (by_score)
      merge_by_heap(scores, scratch, part.size(), symbols, work);
    else
      merge_by_heap(table, scratch, part.size(), symbols, work);
    if (symbols > (1u << 16)) scratch.heap.release();
    unload(part, slots, out);
  }
  if (whole != kNoToken)
    whole_[static_cast<std::size_t>(whole)].store(out.size() == before + 1 && out.back() == whole ? kYes : kNo,
                                                  std::memory_order_relaxed);
}

template <class Pairs>
void PairEncoder::encode_short(const Pairs& pairs, std::string_view part, Work& work, std::vector<Token>& out) const {
  struct Symbol {
    std::uint32_t at, id;
    Merge with_next;
  };
  std::uint32_t slots[kShort];
  Symbol s[kShort];
  std::size_t n = 0;
  load_symbols(part, slots);
  for (std::size_t at = 0; at < part.size(); at += pairs.length(slots[at]))
    s[n++] = {static_cast<std::uint32_t>(at), slots[at], {}};
  work.symbols += n;
  work.lookups += n;
  const auto pair = [&](std::size_t i) -> Merge { return i + 1 < n ? pairs.find(s[i].at, s[i].id, s[i + 1].id) : Merge{}; };
  for (std::size_t i = 0; i < n; ++i) s[i].with_next = pair(i);
  for (;;) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < n; ++i)
      if (s[i].with_next.rank < s[best].with_next.rank) best = i;
    if (s[best].with_next.rank == kNoRank) break;
    s[best].id = static_cast<std::uint32_t>(s[best].with_next.merged);
    std::copy(s + best + 2, s + n, s + best + 1);
    --n;
    s[best].with_next = pair(best);
    if (best > 0) s[best - 1].with_next = pair(best - 1);
    work.lookups += 2;
  }
  bool after_unknown = false;
  for (std::size_t i = 0; i < n; ++i) {
    if (s[i].id & slot::kPseudo) {
      append_unknown(part.substr(s[i].at, pairs.length(s[i].id)), after_unknown, out);
    } else {
      out.push_back(static_cast<Token>(s[i].id));
      after_unknown = false;
    }
  }
}

std::size_t PairEncoder::load_symbols(std::string_view piece, std::uint32_t* slots) const {
  std::size_t symbols = 0;
  if (vocab_.model == TokenModel::byte_level) {
    for (std::size_t i = 0; i < piece.size(); ++i, ++symbols) {
      const Token id = lexicon_.byte_token(static_cast<std::uint8_t>(piece[i]));
      slots[i] = id == kNoToken ? slot::kPseudo | 1 : static_cast<std::uint32_t>(id);
    }
    return symbols;
  }
  const char* const end = piece.data() + piece.size();
  for (std::size_t i = 0; i < piece.size(); ++symbols) {
    std::size_t n = utf8_valid_length(piece.data() + i, end);
    const Token id = n == 0 ? kNoToken : lexicon_.find(piece.substr(i, n));
    n = std::max<std::size_t>(n, 1);
    if (n > 1) {
      std::fill(slots + i + 1, slots + i + n - 1, slot::kDead);
      slots[i + n - 1] =
          slot::kEnd | (id == kNoToken ? slot::kPseudo | static_cast<std::uint32_t>(n) : static_cast<std::uint32_t>(id));
    }
    slots[i] = id == kNoToken ? slot::kPseudo | static_cast<std::uint32_t>(n) : static_cast<std::uint32_t>(id);
    i += n;
  }
  return symbols;
}

void PairEncoder::unload(std::string_view piece, const std::uint32_t* slots, std::vector<Token>& out) const {
  const auto length = [&](std::uint32_t s) { return s & slot::kPseudo ? s & ~slot::kPseudo : lexicon_.lengths()[s]; };
  std::size_t count = 0;
  for (std::size_t i = 0; i < piece.size(); i += length(slots[i])) count += slots[i] & slot::kPseudo ? length(slots[i]) : 1;
  reserve_more(out, count);
  bool after_unknown = false;
  for (std::size_t i = 0; i < piece.size();) {
    const std::uint32_t s = slots[i];
    const std::uint32_t n = length(s);
    if (s & slot::kPseudo) {
      append_unknown(piece.substr(i, n), after_unknown, out);
    } else {
      out.push_back(static_cast<Token>(s));
      after_unknown = false;
    }
    i += n;
  }
}

// `bytes` are those of one character.
void PairEncoder::append_unknown(std::string_view bytes, bool& after_unknown, std::vector<Token>& out) const {
  if (vocab_.byte_fallback && std::all_of(bytes.begin(), bytes.end(), [&](char b) {
        return lexicon_.byte_token(static_cast<std::uint8_t>(b)) != kNoToken;
      })) {
    for (const char b : bytes) out.push_back(lexicon_.byte_token(static_cast<std::uint8_t>(b)));
    after_unknown = false;
    return;
  }
  if (vocab_.unknown != kNoToken && !(after_unknown && vocab_.fuse_unknown)) out.push_back(vocab_.unknown);
  after_unknown = true;
}

void PairEncoder::encode_naive(std::string_view piece, std::vector<Token>& out) const {
  if (piece.empty()) return;
  if (vocab_.ignore_merges)
    if (const Token id = lexicon_.find(piece); id != kNoToken) return out.push_back(id);
  struct Symbol {
    std::size_t at, n;
    std::uint32_t id;
  };
  std::vector<Symbol> s;
  std::vector<std::uint32_t> slots(piece.size());
  load_symbols(piece, slots.data());
  const TablePairs table{lexicon_.lengths(), table_};
  const TextPairs text{lexicon_.lengths(), ranks_.data(), lexicon_, piece};
  for (std::size_t i = 0; i < piece.size(); i += s.back().n) s.push_back({i, table.length(slots[i]), slots[i]});
  for (;;) {
    Merge best;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < s.size(); ++i) {
      const Merge m = vocab_.model == TokenModel::sentencepiece ? text.find(s[i].at, s[i].id, s[i + 1].id)
                                                                : table.find(s[i].at, s[i].id, s[i + 1].id);
      if (m.rank < best.rank) best = m, at = i;
    }
    if (best.rank == kNoRank) break;
    s[at].id = static_cast<std::uint32_t>(best.merged);
    s[at].n += s[at + 1].n;
    s.erase(s.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  bool after_unknown = false;
  for (const Symbol& x : s) {
    if (x.id & slot::kPseudo) {
      append_unknown(piece.substr(x.at, x.n), after_unknown, out);
    } else {
      out.push_back(static_cast<Token>(x.id));
      after_unknown = false;
    }
  }
}

}  // namespace dsv31::inline v1::text
