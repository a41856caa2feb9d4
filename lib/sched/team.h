// The workers of a runtime: a gang of threads that run one function together, with a barrier between phases.
//
// A step of a small model has some two hundred phases of a few microseconds each. So the gang is woken once a step and meets at a
// barrier between phases: workers arrive on one cache line and leave by another; worker 0, the caller, is the last to look and
// releases the others, carrying in the same word whether all are to leave. A waiting worker spins for a while, then sleeps in the
// kernel, so that an idle gang costs nothing. It never yields: on a busy machine that costs it a time slice of every other
// program.
//
// On a host's executor there is no gang: each phase is one parallel_for, whose return is the barrier. The results are the same
// bits.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "dsv31/runtime.h"

namespace dsv31::inline v1::sched {

struct TeamOptions {
  int threads = 0;  // workers, the caller included; 0: usable processors
  Executor* executor = nullptr;
  bool pin = false;
  int spin_microseconds = 50;
};

class Team {
 public:
  explicit Team(const TeamOptions& options);  // throws busy when a thread cannot be started
  ~Team();
  Team(const Team&) = delete;

  int size() const noexcept { return size_; }

  // A list of phases: phases() tells how many there are, run(phase, worker) does a worker's share and may throw.
  class Work {
   public:
    virtual ~Work() = default;
    virtual std::int64_t phases() const = 0;
    virtual void run(std::int64_t phase, int worker) = 0;
    // Called by one thread between phases, when all workers have arrived; true ends the work.
    virtual bool between(std::int64_t finished_phase) = 0;
  };
  // Runs all phases on all workers; returns when they are done. Rethrows the first exception of a worker, after which no further
  // phase was begun. Callers from several threads take turns.
  void execute(Work& work);

 private:
  // What workers wait for. Whoever moves the value looks for sleepers afterwards, and a sleeper counts itself before it looks at
  // the value (all in the one order of sequentially consistent operations), so that no wake-up is lost and none is made in vain.
  struct alignas(64) Word {
    std::atomic<std::uint32_t> value{0};
    std::atomic<std::uint32_t> sleepers{0};
  };

  void loop(int worker);
  void walk(int worker);
  bool meet(int worker, std::int64_t phase);
  void run_guarded(std::int64_t phase, int worker) noexcept;
  template <class Ready>
  void wait_until(Word& word, Ready ready);
  static void wake(Word& word);
  static void announce(Word& word);  // moves it by one
  void execute_on_host(Work& work);

  const int size_;
  Executor* const executor_;
  const bool pin_;
  const int spin_microseconds_;
  std::mutex turn_;  // one work at a time

  Work* work_ = nullptr;  // set before job_ moves
  std::exception_ptr failure_;
  std::mutex failure_mutex_;
  std::atomic<bool> failed_{false};

  Word job_;      // counts works; the lowest bit of a stop is in stopping_
  Word arrived_;  // workers at the barrier, worker 0 not counted
  Word release_;  // generation * 2 + leave
  alignas(64) std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

}  // namespace dsv31::inline v1::sched
