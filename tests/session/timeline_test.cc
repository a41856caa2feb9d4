// Timelines against an obvious model: a cache is right when every block slot of every timeline holds what its token wrote there.
#include "lib/session/timeline.h"

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "tests/catch.h"

using namespace dsv31;
using session::BlockKind;
using session::CachePool;
using session::Timeline;

namespace {

// Layer 0 sees everything, layer 1 a window of 100. One element wide each.
const std::vector<CacheDesc> kLayers{{.num_key_value_heads = 1, .head_dim = 1, .latent = 0, .window = 0},
                                     {.num_key_value_heads = 1, .head_dim = 1, .latent = 0, .window = 100}};

struct World {
  std::shared_ptr<sched::Accountant> accountant = std::make_shared<sched::Accountant>(Allocator{}, 0);
  CachePool pool{kLayers, DType::f32, accountant};
};

float* slot(World& w, std::int32_t layer, std::int32_t block, std::int64_t position) {
  return reinterpret_cast<float*>(w.pool.view().block(layer, block)) + position % kBlock;
}

// What a step does: writes a value that tells token and position into each row's slot, in both layers.
void compute(World& w, Timeline& t) {
  std::int64_t rows = t.size() - t.cached();
  if (rows == 0) return;
  t.prepare(rows);
  SequenceRows s = t.rows(0, rows);
  for (std::int64_t p = t.cached(); p < t.size(); ++p) {
    float value = static_cast<float>(t.tokens()[static_cast<std::size_t>(p)] * 1000 + p);
    *slot(w, 0, s.blocks[p / kBlock], p) = value;
    *slot(w, 1, s.window_blocks[p / kBlock], p) = value;
  }
  t.commit(rows);
}

void check(World& w, const Timeline& t) {
  SequenceRows s = t.rows(0, 1);
  for (std::int64_t p = 0; p < t.cached(); ++p) {
    float value = static_cast<float>(t.tokens()[static_cast<std::size_t>(p)] * 1000 + p);
    REQUIRE(*slot(w, 0, s.blocks[p / kBlock], p) == value);
    if (p > t.cached() - 100) {  // what the next row can see
      REQUIRE(s.window_blocks[p / kBlock] >= 0);
      REQUIRE(*slot(w, 1, s.window_blocks[p / kBlock], p) == value);
    }
  }
}

}  // namespace

TEST_CASE("tokens keep the window that they were pushed under, and neighbours of the same one are one run") {
  World w;
  Timeline t(w.pool), copy(w.pool);
  const AttentionWindow narrow{.window = 10, .sinks = 2}, wide{.window = 50};
  const std::vector<Token> twenty(20, 7);
  t.push(twenty);
  CHECK(t.run_end(0) == INT64_MAX);
  t.set_window(narrow);
  CHECK(t.window_at(19) == AttentionWindow{});
  t.push({});  // no token, no run
  t.push(twenty);
  t.push(twenty);
  CHECK(t.run_end(0) == 20);
  CHECK(t.run_end(20) == INT64_MAX);
  t.set_window(wide);
  t.push(twenty);
  t.share_into(copy);
  for (Timeline* x : {&t, &copy}) {
    CHECK(x->window_at(20) == narrow);
    CHECK(x->window_at(59) == narrow);
    CHECK(x->window_at(60) == wide);
    CHECK(x->run_end(20) == 60);
    CHECK(x->window_in_force() == wide);
    CHECK(x->same_view({}) == 20);
    CHECK(x->same_view(narrow) == 12);
    CHECK(x->same_view(wide) == 20);
    CHECK(x->same_view({.window = 70}) == 20);
  }
  compute(w, copy);  // the whole of it: runs bound steps in the engine, not here
  CHECK(copy.rows(0, 1).window == wide);
  t.truncate(60);
  CHECK(t.run_end(20) == INT64_MAX);
  t.push(twenty);
  CHECK(t.window_at(60) == wide);
  t.retract(20);
  CHECK(t.window_at(19) == AttentionWindow{});
  t.set_window({});
  t.push(twenty);
  CHECK(t.run_end(0) == INT64_MAX);
}

TEST_CASE("random walks of append, fork, rewind and drop keep every timeline's slots right") {
  World w;
  std::mt19937 rng(11);
  std::vector<std::unique_ptr<Timeline>> all;
  all.push_back(std::make_unique<Timeline>(w.pool));
  for (int step = 0; step < 4000; ++step) {
    Timeline& t = *all[rng() % all.size()];
    switch (rng() % 5) {
      case 0:
      case 1: {
        std::vector<Token> more(1 + rng() % 90);
        for (Token& x : more) x = static_cast<Token>(rng() % 50);
        if (t.size() + static_cast<std::int64_t>(more.size()) > 700) break;
        t.push(more);
        compute(w, t);
        break;
      }
      case 2:
        if (all.size() < 5) {
          auto copy = std::make_unique<Timeline>(w.pool);
          t.share_into(*copy);
          all.push_back(std::move(copy));
        }
        break;
      case 3:
        t.truncate(t.size() == 0 ? 0 : static_cast<std::int64_t>(rng() % static_cast<unsigned>(t.size() + 1)));
        compute(w, t);  // where a window's blocks were gone, everything is computed again
        break;
      case 4:
        if (all.size() > 1) {
          std::size_t i = rng() % all.size();
          all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
        }
        break;
    }
    if (step % 7 == 0)
      for (auto& x : all) check(w, *x);
  }
  for (auto& x : all) check(w, *x);
  all.clear();
  CHECK(w.pool.blocks_in_use() == 0);
  CHECK(w.accountant->use().cache == 0);
}

TEST_CASE("a fork shares every block until one side writes, then copies the one block it writes") {
  World w;
  Timeline a(w.pool), b(w.pool);
  a.push(std::vector<Token>(100, 1));
  compute(w, a);
  CHECK(w.pool.blocks_in_use() == 4);  // two blocks of each kind
  a.share_into(b);
  CHECK(w.pool.blocks_in_use() == 4);
  b.push(std::vector<Token>(1, 2));
  compute(w, b);
  CHECK(w.pool.blocks_in_use() == 6);
  check(w, a);
  check(w, b);
}

TEST_CASE("blocks behind the window are given back; the full layers keep theirs") {
  World w;
  Timeline t(w.pool);
  for (int i = 0; i < 40; ++i) {
    t.push(std::vector<Token>(64, i));
    compute(w, t);
  }
  CHECK(t.cached() == 2560);
  // 40 full blocks; window 100 + slack 256 before position 2560 begins in block (2560 - 356) / 64 = 34
  CHECK(w.pool.blocks_in_use() == 40 + 6);
  check(w, t);
}

TEST_CASE("a rewind past what a window still holds drops the cache, a short one keeps it") {
  World w;
  Timeline t(w.pool);
  t.push(std::vector<Token>(1000, 1));
  compute(w, t);
  t.truncate(900);
  CHECK(t.cached() == 900);
  t.truncate(300);
  CHECK(t.cached() == 0);
  CHECK(t.size() == 300);
  compute(w, t);
  check(w, t);
}

TEST_CASE("memory refused: the timeline is as it was and works later") {
  auto accountant = std::make_shared<sched::Accountant>(Allocator{}, 2 * (64 * 2 * 4) * CachePool::kSlabBlocks);
  CachePool pool(kLayers, DType::f32, accountant);
  Timeline t(pool);
  t.push(std::vector<Token>(256, 1));
  t.prepare(256);
  t.commit(256);
  t.push(std::vector<Token>(64, 1));
  try {
    t.prepare(64);
    FAIL("expected no_memory");
  } catch (const Error& e) {
    CHECK(e.code() == Code::no_memory);
  }
  CHECK(t.cached() == 256);
  t.truncate(200);
  t.push(std::vector<Token>(50, 1));
  t.prepare(50);
  CHECK(t.cached() == 200);
}

TEST_CASE("a new block is zero") {
  World w;
  Timeline t(w.pool);
  t.push(std::vector<Token>(64, 7));
  compute(w, t);
  t.clear();
  t.push(std::vector<Token>(1, 7));
  t.prepare(1);
  for (std::int64_t p = 0; p < kBlock; ++p) REQUIRE(*slot(w, 0, t.rows(0, 1).blocks[0], p) == 0);
}
