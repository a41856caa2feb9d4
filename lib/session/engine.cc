#include "lib/session/engine.h"

#include <algorithm>

#include "dsv31/error.h"

namespace dsv31::inline v1::session {

Lane& Engine::lane(Numerics numerics) {
  std::lock_guard lock(mutex_);
  auto& slot = lanes_[(numerics.exact ? 1 : 0) + (numerics.relaxed ? 2 : 0)];
  if (!slot) {
    sched::Placement placement =
        sched::place(*parts_.graph, *parts_.backends, numerics, parts_.preference, parts_.layouts.empty() ? nullptr : &parts_.layouts);
    slot = std::make_unique<Lane>(sched::Program(*parts_.graph, *parts_.backends, std::move(placement), parts_.weights, numerics,
                                                 numerics.exact ? DType::f32 : DType::f16),
                                  *parts_.graph, parts_.accountant);
  }
  return *slot;
}

void Engine::advance(Lane& lane, std::span<Item> items, std::int64_t chunk, const CancelToken* cancel,
                     const std::function<bool(std::uint64_t, std::uint64_t)>& progress) {
  std::lock_guard lock(mutex_);
  auto missing = [&] {
    std::int64_t n = 0;
    for (const Item& i : items) n += i.timeline->size() - i.timeline->cached();
    return n;
  };
  const std::int64_t total = missing();
  for (std::int64_t left = total; left > 0; left = missing()) {
    if (progress && !progress(static_cast<std::uint64_t>(total - left), static_cast<std::uint64_t>(total)))
      throw Error(Code::cancelled, "session.prefill", "got a cancel request from progress, expected to go on");
    step(lane, items, chunk, cancel);
  }
  if (progress && total > 0) progress(static_cast<std::uint64_t>(total), static_cast<std::uint64_t>(total));
}

void Engine::step(Lane& lane, std::span<Item> items, std::int64_t chunk, const CancelToken* cancel) {
  tokens_.clear();
  positions_.clear();
  sequence_of_row_.clear();
  logit_rows_.clear();
  item_of_logit_.clear();
  sequences_.clear();
  parts_of_step_.clear();
  std::int64_t room = chunk;
  for (std::size_t i = 0; i < items.size() && room > 0; ++i) {
    Timeline& t = *items[i].timeline;
    std::int64_t rows = std::min(room, t.size() - t.cached());
    if (rows == 0) continue;
    t.prepare(rows);
    parts_of_step_.emplace_back(i, rows);
    room -= rows;
  }
  for (auto [i, rows] : parts_of_step_) {
    const Timeline& t = *items[i].timeline;
    std::int64_t first = static_cast<std::int64_t>(tokens_.size());
    sequences_.push_back(t.rows(first, rows));
    for (std::int64_t r = 0; r < rows; ++r) {
      std::int64_t position = t.cached() + r;
      tokens_.push_back(t.tokens()[static_cast<std::size_t>(position)]);
      positions_.push_back(static_cast<std::int32_t>(position));
      sequence_of_row_.push_back(static_cast<std::int32_t>(sequences_.size() - 1));
      if (items[i].sink && (items[i].all_logits || position + 1 == t.size())) {
        logit_rows_.push_back(static_cast<std::int32_t>(first + r));
        item_of_logit_.push_back(static_cast<std::int32_t>(i));
      }
    }
  }
  const std::int64_t n = static_cast<std::int64_t>(tokens_.size());
  // Two sizes of workspace: a few rows, for hosts that only ever generate, and the whole chunk.
  workspace_.reserve(lane.program, n <= 16 ? std::min<std::int64_t>(16, chunk) : chunk, *parts_.team, parts_.accountant);
  Step s;
  s.tokens = tokens_;
  s.positions = positions_;
  s.sequence_of_row = sequence_of_row_;
  s.sequences = sequences_;
  s.logit_rows = logit_rows_;
  s.cache = lane.pool.view();
  std::size_t seen = 0;
  workspace_.run(lane.program, s, *parts_.team, cancel, [&](std::span<const std::int32_t> rows, std::span<const float> logits, std::int64_t stride) {
    for (std::size_t r = 0; r < rows.size(); ++r, ++seen)
      items[static_cast<std::size_t>(item_of_logit_[seen])].sink(positions_[static_cast<std::size_t>(rows[r])],
                                                                  logits.subspan(r * static_cast<std::size_t>(stride), static_cast<std::size_t>(stride)), stride);
  });
  for (auto [i, rows] : parts_of_step_) items[i].timeline->commit(rows);
}

}  // namespace dsv31::inline v1::session
