#include "lib/session/engine.h"

#include <algorithm>
#include <functional>

#include "dsv31/error.h"

namespace dsv31::inline v1::session {
namespace {

constexpr std::int64_t kStates = 32;  // states that wait for the draft layer; more are read at once

}  // namespace

Engine::Engine(EngineParts parts) : parts_(std::move(parts)) {
  if (!parts_.count_experts) return;
  experts_ = std::make_unique<sched::ExpertCount>(*parts_.graph);
  workspace_.count(experts_.get());
}

Lane& Engine::lane(Numerics numerics) {
  std::lock_guard lock(mutex_);
  auto& slot = lanes_[(numerics.exact ? 1 : 0) + (numerics.relaxed ? 2 : 0)];
  if (!slot) {
    sched::Placement placement = sched::place(*parts_.graph, *parts_.backends, numerics, parts_.preference,
                                              parts_.layouts.empty() ? nullptr : &parts_.layouts);
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
    std::int64_t rows = std::min({room, t.size() - t.cached(), t.run_end(t.cached()) - t.cached()});
    if (rows == 0) continue;
    t.prepare(rows, items[i].draft ? items[i].draft->cached() : t.cached());
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
      if (items[i].sink && (position >= items[i].logits_from || position + 1 == t.size())) {
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
  const auto deliver = [&](std::span<const std::int32_t> rows, std::span<const float> logits, std::int64_t stride) {
    for (std::size_t r = 0; r < rows.size(); ++r, ++seen)
      items[static_cast<std::size_t>(item_of_logit_[seen])].sink(
          positions_[static_cast<std::size_t>(rows[r])],
          logits.subspan(r * static_cast<std::size_t>(stride), static_cast<std::size_t>(stride)), stride);
  };
  workspace_.run(lane.program, s, *parts_.team, cancel, std::cref(deliver));  // by reference: a copy would go on the heap
  std::int64_t first = 0;
  for (auto [i, rows] : parts_of_step_) {
    Timeline& t = *items[i].timeline;
    if (items[i].draft) {
      const Graph& graph = lane.program.graph();
      items[i].draft->append(t.cached(), rows, workspace_.value(graph.state) + first * row_stride(graph.hidden_size));
    }
    t.commit(rows);
    first += rows;
  }
  for (auto [i, rows] : parts_of_step_)
    if (items[i].draft) follow(lane, items[i], chunk, cancel);
}

void Engine::follow(Lane& lane, Item& item, std::int64_t chunk, const CancelToken* cancel) {
  DraftState& d = *item.draft;
  if (!item.draft_sink && d.end() - d.cached() <= kStates) return;
  const Timeline& t = *item.timeline;
  for (std::int64_t n = 0;
       (n = std::min({chunk, d.end() - d.cached(), t.size() - 1 - d.cached(), t.run_end(d.cached()) - d.cached()})) > 0;) {
    const auto tokens = t.tokens().subspan(static_cast<std::size_t>(d.cached() + 1), static_cast<std::size_t>(n));
    run_draft(lane, t,
              {.entry = d.cached(), .tokens = tokens, .states = d.state(d.cached()), .all_logits = true, .sink = item.draft_sink},
              chunk, cancel);
    d.advance(d.cached() + n);
  }
}

void Engine::draft(Lane& lane, Timeline& t, DraftState& d, int k, std::int64_t chunk, const CancelToken* cancel,
                   const std::function<Token(std::span<const float>)>& choose) {
  std::lock_guard lock(mutex_);
  const std::int64_t last = t.size() - 2;  // the first entry that drafts
  if (last < d.cached() || !d.complete(t.cached()) || t.cached() != t.size() - 1) return;
  t.prepare(1 + k, d.cached());
  Token token = kNoToken;
  const auto sink = [&](std::int64_t, std::span<const float> row, std::int64_t) {
    token = choose(row.first(static_cast<std::size_t>(lane.program.graph().vocab_size)));
  };
  std::vector<float> state(static_cast<std::size_t>(lane.program.graph().hidden_size));
  while (d.cached() <= last) {
    const std::int64_t n = std::min({chunk, last + 1 - d.cached(), t.run_end(d.cached()) - d.cached()});
    const bool drafts = d.cached() + n > last;
    Entries e{.entry = d.cached(),
              .tokens = t.tokens().subspan(static_cast<std::size_t>(d.cached() + 1), static_cast<std::size_t>(n)),
              .states = d.state(d.cached()),
              .next = state.data()};
    if (drafts) e.sink = sink;
    run_draft(lane, t, e, chunk, cancel);
    d.advance(d.cached() + n);
  }
  for (int i = 1; i < k; ++i) {
    const Token before =
        token;  // entries past the last one are guesses: they are written again when the trunk's states are known
    run_draft(lane, t, {.entry = last + i, .tokens = {&before, 1}, .states = state.data(), .next = state.data(), .sink = sink},
              chunk, cancel);
  }
}

void Engine::run_draft(Lane& lane, const Timeline& t, const Entries& e, std::int64_t chunk, const CancelToken* cancel) {
  const Graph& graph = lane.program.graph();
  const auto n = static_cast<std::int64_t>(e.tokens.size());
  const std::int64_t width = graph.hidden_size;
  workspace_.reserve(lane.program, n <= 16 ? std::min<std::int64_t>(16, chunk) : chunk, *parts_.team, parts_.accountant);
  draft_positions_.clear();
  draft_rows_.assign(static_cast<std::size_t>(n), 0);
  draft_logits_.clear();
  for (std::int64_t r = 0; r < n; ++r) {
    draft_positions_.push_back(static_cast<std::int32_t>(e.entry + r));
    if (e.sink && (e.all_logits || r + 1 == n)) draft_logits_.push_back(static_cast<std::int32_t>(r));
    std::copy_n(e.states + r * width, width, workspace_.value(graph.draft_state) + r * row_stride(width));
  }
  SequenceRows rows = t.rows(0, n);
  rows.position = e.entry;
  rows.window = t.window_at(e.entry);
  Step s;
  s.tokens = e.tokens;
  s.positions = draft_positions_;
  s.sequence_of_row = draft_rows_;
  s.sequences = {&rows, 1};
  s.logit_rows = draft_logits_;
  s.cache = lane.pool.view();
  workspace_.run(
      lane.program, s, *parts_.team, cancel,
      [&](std::span<const std::int32_t> which, std::span<const float> logits, std::int64_t stride) {
        for (std::size_t r = 0; r < which.size(); ++r)
          e.sink(e.entry + which[r], logits.subspan(r * static_cast<std::size_t>(stride), static_cast<std::size_t>(stride)),
                 stride);
      },
      sched::Section::draft);
  if (e.next != nullptr) std::copy_n(workspace_.value(graph.draft_next) + (n - 1) * row_stride(width), width, e.next);
}

}  // namespace dsv31::inline v1::session
