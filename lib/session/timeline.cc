#include "lib/session/timeline.h"

#include <algorithm>

namespace dsv31::inline v1::session {

void Timeline::drop(std::vector<std::int32_t>& table, std::size_t from) noexcept {
  for (std::size_t i = from; i < table.size(); ++i)
    if (table[i] >= 0) pool_->release(table[i]);
  table.resize(std::min(from, table.size()));
}

void Timeline::own(std::vector<std::int32_t>& table, BlockKind kind, std::int64_t rows, std::int64_t from) {
  if (!pool_->has(kind)) return;
  std::size_t need = static_cast<std::size_t>((cached_ + rows + kBlock - 1) / kBlock);
  for (std::size_t write = static_cast<std::size_t>(std::min(from, cached_) / kBlock); write < table.size(); ++write) {
    if (table[write] < 0 || !pool_->shared(table[write])) continue;
    std::int32_t mine = pool_->copy(kind, table[write]);
    pool_->release(table[write]);
    table[write] = mine;
  }
  table.reserve(need);
  while (table.size() < need) table.push_back(pool_->acquire(kind));
}

void Timeline::prepare(std::int64_t rows, std::int64_t from) {
  own(full_, BlockKind::full, rows, from);
  own(window_, BlockKind::window, rows, from);
}

SequenceRows Timeline::rows(std::int64_t first_row, std::int64_t rows) const {
  return {first_row, rows, cached_, full_.data(), window_.data(), window_at(cached_)};
}

void Timeline::push(std::span<const Token> tokens) {
  if (!tokens.empty() && window_at(size()) != window_in_force_) runs_.push_back({size(), window_in_force_});
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

const AttentionWindow& Timeline::window_at(std::int64_t position) const {
  static constexpr AttentionWindow kNone{};
  const auto next = std::find_if(runs_.rbegin(), runs_.rend(), [&](const Run& run) { return run.begin <= position; });
  return next == runs_.rend() ? kNone : next->window;
}

std::int64_t Timeline::run_end(std::int64_t position) const {
  const auto next = std::find_if(runs_.begin(), runs_.end(), [&](const Run& run) { return run.begin > position; });
  return next == runs_.end() ? INT64_MAX : next->begin;
}

std::int64_t Timeline::same_view(const AttentionWindow& window) const {
  for (std::int64_t begin = 0; begin < size(); begin = run_end(begin)) {
    const AttentionWindow& other = window_at(begin);
    if (other == window) continue;
    const std::int64_t differs = std::max(begin, std::min(other.hides_from(), window.hides_from()));
    if (differs < std::min(run_end(begin), size())) return differs;
  }
  return size();
}

void Timeline::commit(std::int64_t rows) {
  cached_ += rows;
  if (!pool_->has(BlockKind::window)) return;
  std::int64_t dead = (cached_ - pool_->window() - kSlack) / kBlock;  // whole blocks that end before the window and the slack
  for (std::int64_t i = dead - 1; i >= 0 && window_[static_cast<std::size_t>(i)] >= 0; --i) {
    pool_->release(window_[static_cast<std::size_t>(i)]);
    window_[static_cast<std::size_t>(i)] = -1;
  }
}

void Timeline::retract(std::int64_t n) {
  tokens_.resize(static_cast<std::size_t>(std::min(n, size())));
  while (!runs_.empty() && runs_.back().begin >= size()) runs_.pop_back();
}

void Timeline::truncate(std::int64_t n) {
  retract(n);
  uncache(n);
}

void Timeline::uncache(std::int64_t n) {
  if (n >= cached_) return;
  if (pool_->has(BlockKind::window)) {
    // The next row, at position n, reads the window's keys from n - window + 1 on.
    std::int64_t first = std::max<std::int64_t>(0, n - pool_->window() + 1) / kBlock;
    if (n > 0 && window_[static_cast<std::size_t>(first)] < 0) n = 0;
  }
  cached_ = n;
  std::size_t keep = static_cast<std::size_t>((n + kBlock - 1) / kBlock);
  drop(full_, std::min(keep, full_.size()));
  drop(window_, std::min(keep, window_.size()));
}

void Timeline::share_into(Timeline& to) const {
  to.tokens_ = tokens_;
  to.full_ = full_;
  to.window_ = window_;
  to.cached_ = cached_;
  to.runs_ = runs_;
  to.window_in_force_ = window_in_force_;
  for (auto* table : {&full_, &window_})
    for (std::int32_t b : *table)
      if (b >= 0) pool_->share(b);
}

void Timeline::clear() noexcept {
  drop(full_, 0);
  drop(window_, 0);
  tokens_.clear();
  runs_.clear();
  cached_ = 0;
}

}  // namespace dsv31::inline v1::session
