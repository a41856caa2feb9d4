// The same tokens computed in different ways: every row of logits must have the same bits.
#include <fmt/format.h>

#include <algorithm>

#include "dsv31/session.h"
#include "lib/api/self_check.h"
#include "lib/io/checksum.h"

namespace dsv31::inline v1 {
namespace {

using RowSums = std::vector<std::uint64_t>;  // a checksum of each row of logits

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

std::uint64_t sum(std::span<const float> row) { return io::checksum(row.data(), row.size_bytes()); }

RowSums compute(const SelfCheck& check, session::Engine& engine, Numerics numerics, std::int64_t chunk) {
  session::Lane& lane = engine.lane(numerics);
  session::Timeline timeline(lane.pool);
  timeline.push(check.tokens);
  RowSums out;
  session::Engine::Item item;
  item.timeline = &timeline;
  item.logits_from = 0;
  item.sink = [&](std::int64_t, std::span<const float> row, std::int64_t) {
    out.push_back(sum(row.first(at(check.graph().vocab_size))));
  };
  const auto clear = [&] {
    std::lock_guard lock(engine.mutex());
    timeline.clear();
  };
  try {
    engine.advance(lane, {&item, 1}, chunk, check.options.cancel);
  } catch (...) {
    clear();
    throw;
  }
  clear();
  return out;
}

class WaysCheck {
 public:
  explicit WaysCheck(SelfCheck& check) : check_(check), engine_(engine_parts(check.impl())) {}

  void run() {
    for (const Numerics numerics : {Numerics{}, Numerics{.exact = true}}) {
      const RowSums whole = compute(check_, engine_, numerics, 512);
      if (!numerics.exact) fresh_ = whole;
      for (const std::int64_t chunk : {1, 7}) {
        if (numerics.exact && chunk == 1) continue;
        same("chunks", fmt::format("{} tokens in one step, and {} a step", whole.size(), chunk), numerics,
             compute(check_, engine_, numerics, chunk), whole);
      }
    }
    threads();
    cache();
    batch();
  }

 private:
  void same(std::string what, std::string how, Numerics numerics, const RowSums& got, const RowSums& want) {
    SelfCheckRow row;
    row.check = std::move(what);
    row.what = std::move(how);
    row.arithmetic = arithmetic(numerics);
    row.ok = got == want;
    if (!row.ok)
      row.note = fmt::format("the logits differ first at token {}",
                             std::mismatch(want.begin(), want.end(), got.begin(), got.end()).first - want.begin());
    check_.report.rows.push_back(std::move(row));
    check_.check_cancel();
  }
  // The logits of a session after its n tokens are those of the fresh computation.
  void same_at(const char* check, std::string how, Session& session) {
    same(check, std::move(how), {}, {sum(session.logits())}, {fresh_[at(session.size() - 1)]});
  }

  void threads() {
    for (const int n : {1, 2, 3}) {
      const RuntimeOptions& o = check_.impl().runtime.impl()->options;
      if (n == check_.team().size()) continue;
      sched::Team other({n, o.executor, false, o.spin_microseconds});
      session::EngineParts parts = engine_parts(check_.impl());
      parts.team = &other;
      session::Engine engine(std::move(parts));
      same("threads", fmt::format("{} and {} workers", check_.team().size(), n), {}, compute(check_, engine, {}, 512), fresh_);
    }
  }

  void cache() {
    const std::span<const Token> tokens(check_.tokens);
    const std::size_t n = tokens.size(), half = (n + 1) / 2;
    Session session(check_.model);
    session.append(tokens);
    same_at("cache", "a prompt in a session", session);
    Session fork = session.fork();
    fork.rewind(static_cast<std::int64_t>(half));
    same_at("cache", "a fork, rewound by half", fork);
    fork.append(tokens.subspan(half));
    same_at("cache", "the fork, its half computed again", fork);
    std::vector<Token> other(tokens.begin(), tokens.end());
    other[n / 3] = static_cast<Token>((other[n / 3] + 1) % check_.graph().vocab_size);
    fork.sync(other);
    fork.sync(tokens);
    same_at("cache", "the fork, synced to another prompt and back", fork);
    same_at("cache", "the session that it was forked from", session);
  }

  void batch() {
    const std::span<const Token> tokens(check_.tokens);
    const std::size_t half = tokens.size() / 2;
    const auto others = spread_tokens(static_cast<std::int64_t>(half), 3, check_.graph().vocab_size);
    Session mine(check_.model), beside(check_.model);
    Advance first[] = {{&beside, others}, {&mine, tokens.first(half)}};
    advance_all(first, check_.options.cancel);
    Advance second[] = {{&mine, tokens.subspan(half)}, {&beside, std::span<const Token>(others).first(1)}};
    if (beside.capacity() > beside.size()) advance_all(second, check_.options.cancel);
    same_at("batch", "beside another session", mine);
  }

  SelfCheck& check_;
  session::Engine engine_;
  RowSums fresh_;  // of the prompt in one step, fast
};

}  // namespace

void check_ways(SelfCheck& check) { WaysCheck(check).run(); }

}  // namespace dsv31::inline v1
