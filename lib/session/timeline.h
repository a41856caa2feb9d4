// The tokens of one session and the cache blocks that hold them. Everything that moves in a session moves here.
//
// tokens()[0, cached()) are in the cache; the rest will be computed by the next step. A block is written only while this timeline
// is its one owner; a shared one is copied first. Every token keeps the attention window that it was pushed under, so that what
// is computed again later comes out the same. Not thread-safe: the engine holds its lock where the pool is touched.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dsv31/tokenizer.h"
#include "lib/session/cache_pool.h"

namespace dsv31::inline v1::session {

class Timeline {
 public:
  explicit Timeline(CachePool& pool) : pool_(&pool) {}
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;
  ~Timeline() { clear(); }

  std::span<const Token> tokens() const { return tokens_; }
  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
  std::int64_t cached() const { return cached_; }

  // The blocks of [cached, cached + rows) exist and are this timeline's own afterwards. Throws no_memory; the tokens and what is
  // cached of them are untouched. from: rows from there on are written again, and their blocks made this timeline's own too.
  void prepare(std::int64_t rows, std::int64_t from = std::int64_t{1} << 62);
  // The blocks and the window of position cached() as a step wants them, valid until the timeline changes. Rows of a step have
  // one window: at most to run_end().
  SequenceRows rows(std::int64_t first_row, std::int64_t rows) const;
  // Rows [cached, cached + rows) have been computed; gives back the blocks that no window reaches any more.
  void commit(std::int64_t rows);

  void push(std::span<const Token> tokens);
  // Of tokens that are pushed from now on.
  void set_window(const AttentionWindow& window) { window_in_force_ = window; }
  const AttentionWindow& window_in_force() const { return window_in_force_; }
  // Of the token at a position, or of those to come.
  const AttentionWindow& window_at(std::int64_t position) const;
  // The first position after `position` that has another window; INT64_MAX: none.
  std::int64_t run_end(std::int64_t position) const;
  // The first position whose window does not show it the keys that `window` would; size(): none.
  std::int64_t same_view(const AttentionWindow& window) const;
  // Keeps the first n tokens. Cached state that a window needs and has been given back makes the rest of the cache useless: it is
  // dropped then, and computed again by the next step.
  void truncate(std::int64_t n);
  // Keeps the tokens and forgets the cache from position n on; the next step computes it again.
  void uncache(std::int64_t n);
  // Keeps the first n tokens and all of the cache: it holds drafts past them, which uncache(size()) drops or push() confirms.
  void retract(std::int64_t n);
  // A second timeline with the same tokens, sharing the blocks. `to` must be empty.
  void share_into(Timeline& to) const;
  void clear() noexcept;

 private:
  // Positions behind the window that stay for short rewinds.
  static constexpr std::int64_t kSlack = 4 * kBlock;

  struct Run {
    std::int64_t begin;
    AttentionWindow window;
  };

  void drop(std::vector<std::int32_t>& table, std::size_t from) noexcept;
  void own(std::vector<std::int32_t>& table, BlockKind kind, std::int64_t rows, std::int64_t from);

  CachePool* pool_;
  std::vector<Token> tokens_;
  std::int64_t cached_ = 0;
  std::vector<std::int32_t> full_, window_;  // block of each kBlock positions; -1: given back
  std::vector<Run> runs_;                    // by begin; tokens before the first have no window, neighbours differ
  AttentionWindow window_in_force_;
};

}  // namespace dsv31::inline v1::session
