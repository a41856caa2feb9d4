#include "lib/sched/team.h"

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/catch.h"

using namespace dsv31;
using sched::Team;

namespace {

// Every worker adds its turn in every phase; a phase checks that the one before it is complete.
struct Counting final : Team::Work {
  int workers = 0;
  std::int64_t count = 0;
  std::vector<std::atomic<int>> seen;
  std::atomic<int> early{0};
  std::int64_t stop_after = -1, throw_at = -1;
  int thrower = 0;
  std::int64_t between_calls = 0;

  Counting(int w, std::int64_t phases) : workers(w), count(phases), seen(static_cast<std::size_t>(phases)) {}
  std::int64_t phases() const override { return count; }
  void run(std::int64_t phase, int worker) override {
    if (phase > 0 && seen[static_cast<std::size_t>(phase - 1)].load() != workers) ++early;
    if (phase == throw_at && worker == thrower) throw std::runtime_error("worker");
    ++seen[static_cast<std::size_t>(phase)];
  }
  bool between(std::int64_t finished) override {
    ++between_calls;
    return finished == stop_after;
  }
};

// A host that runs the items in reverse order on one extra thread.
struct ReverseHost final : Executor {
  int calls = 0;
  int concurrency() const override { return 2; }
  void parallel_for(int count, void (*fn)(void*, int), void* arg) override {
    ++calls;
    std::thread other([&] {
      for (int i = count - 1; i >= 0; i -= 2) fn(arg, i);
    });
    for (int i = count - 2; i >= 0; i -= 2) fn(arg, i);
    other.join();
  }
};

}  // namespace

TEST_CASE("every worker runs every phase once and sees the phase before complete") {
  for (int threads : {1, 2, 3, 5}) {
    Team team({.threads = threads});
    REQUIRE(team.size() == threads);
    for (int round = 0; round < 50; ++round) {
      Counting work(threads, 40);
      team.execute(work);
      CHECK(work.early == 0);
      for (auto& n : work.seen) CHECK(n == threads);
      CHECK(work.between_calls == 40);
    }
  }
}

// Without spinning every wait sleeps, more workers than processors or not: a wake-up that got lost would hang here.
TEST_CASE("workers that sleep at once are woken for every phase and every work") {
  for (int threads : {2, 3, 7}) {
    Team team({.threads = threads, .spin_microseconds = 0});
    for (int round = 0; round < 100; ++round) {
      Counting work(threads, 1 + round % 40);
      team.execute(work);
      CHECK(work.early == 0);
      CHECK(work.seen.back() == threads);
    }
  }
}

TEST_CASE("between ends the work for all workers at the same phase") {
  Team team({.threads = 3});
  Counting work(3, 10);
  work.stop_after = 4;
  team.execute(work);
  for (std::size_t p = 0; p < 10; ++p) CHECK(work.seen[p] == (p <= 4 ? 3 : 0));
}

TEST_CASE("a worker's exception reaches the caller and leaves the team usable") {
  Team team({.threads = 3});
  for (int thrower = 0; thrower < 3; ++thrower) {
    Counting work(3, 6);
    work.throw_at = 2;
    work.thrower = thrower;
    CHECK_THROWS_AS(team.execute(work), std::runtime_error);
    CHECK(work.seen[3] == 0);
    Counting next(3, 6);
    team.execute(next);
    CHECK(next.seen[5] == 3);
  }
}

TEST_CASE("callers from several threads take turns") {
  Team team({.threads = 2});
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 3; ++c)
    callers.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        Counting work(2, 5);
        team.execute(work);
        if (work.early != 0 || work.seen[4] != 2) ++wrong;
      }
    });
  for (auto& t : callers) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("a host's executor gets one parallel_for a phase") {
  ReverseHost host;
  Team team({.threads = 0, .executor = &host});
  CHECK(team.size() == 2);
  Counting work(2, 7);
  team.execute(work);
  CHECK(host.calls == 7);
  CHECK(work.early == 0);
  CHECK(work.seen[6] == 2);
  Counting failing(2, 7);
  failing.throw_at = 3;
  failing.thrower = 1;
  CHECK_THROWS_AS(team.execute(failing), std::runtime_error);
  CHECK(failing.seen[4] == 0);
}

TEST_CASE("a worker that waits long sleeps and is woken") {
  Team team({.threads = 2, .spin_microseconds = 0});
  struct Slow final : Team::Work {
    std::atomic<int> done{0};
    std::int64_t phases() const override { return 2; }
    void run(std::int64_t, int worker) override {
      if (worker == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ++done;
    }
    bool between(std::int64_t) override { return false; }
  } slow;
  team.execute(slow);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  team.execute(slow);
  CHECK(slow.done == 8);
}
