#include "lib/sched/team.h"

#include <chrono>
#include <system_error>
#include <utility>

#include "lib/sched/processors.h"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace dsv31::inline v1::sched {
namespace {

void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Sleeps while the word is `value`; may also return early. std::atomic's own wait would call sched_yield() first: where other
// programs want the processors, that hands each of them a whole time slice, at every barrier.
void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t value) noexcept {
#if defined(__linux__)
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
#else
  word.wait(value, std::memory_order_acquire);
#endif
}
void wake_all(std::atomic<std::uint32_t>& word) noexcept {
#if defined(__linux__)
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1 << 30, nullptr, nullptr, 0);
#else
  word.notify_all();
#endif
}

int team_size(const TeamOptions& o) {
  if (o.executor != nullptr) return o.threads > 0 ? o.threads : (o.executor->concurrency() > 0 ? o.executor->concurrency() : 1);
  return o.threads > 0 ? o.threads : usable_processors();
}

}  // namespace

Team::Team(const TeamOptions& options)
    : size_(team_size(options)), executor_(options.executor), pin_(options.pin), spin_microseconds_(options.spin_microseconds) {
  if (executor_ != nullptr) return;
  threads_.reserve(static_cast<std::size_t>(size_ - 1));
  try {
    for (int w = 1; w < size_; ++w) threads_.emplace_back([this, w] { loop(w); });
  } catch (const std::system_error&) {
    stopping_.store(true);
    announce(job_);
    for (auto& t : threads_) t.join();
    throw Error(Code::busy, "runtime.threads", "got a refusal from the system, expected to start every worker thread");
  }
}

Team::~Team() {
  if (threads_.empty()) return;
  stopping_.store(true, std::memory_order_relaxed);
  announce(job_);
  for (auto& t : threads_) t.join();
}

// Returns when ready(word) holds. Spins for spin_microseconds, then sleeps until the word moves.
template <class Ready>
void Team::wait_until(Word& word, Ready ready) {
  if (ready(word.value.load(std::memory_order_acquire))) return;
  if (spin_microseconds_ > 0) {
    auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(spin_microseconds_);
    do {
      for (int i = 0; i < 64; ++i) {
        pause();
        if (ready(word.value.load(std::memory_order_acquire))) return;
      }
    } while (std::chrono::steady_clock::now() < deadline);
  }
  word.sleepers.fetch_add(1);  // before the word is read again: who moves it later sees this
  for (std::uint32_t now = word.value.load(); !ready(now); now = word.value.load()) sleep_while(word.value, now);
  word.sleepers.fetch_sub(1);
}

void Team::wake(Word& word) {
  if (word.sleepers.load() > 0) wake_all(word.value);
}

void Team::announce(Word& word) {
  word.value.fetch_add(1);
  wake(word);
}

void Team::run_guarded(std::int64_t phase, int worker) noexcept {
  if (failed_.load(std::memory_order_relaxed)) return;
  try {
    work_->run(phase, worker);
  } catch (...) {
    std::lock_guard lock(failure_mutex_);
    if (!failure_) failure_ = std::current_exception();
    failed_.store(true, std::memory_order_relaxed);
  }
}

// The barrier after a phase; true: leave.
bool Team::meet(int worker, std::int64_t phase) {
  std::uint32_t generation = release_.value.load(std::memory_order_relaxed);
  if (worker == 0) {
    std::uint32_t others = static_cast<std::uint32_t>(size_ - 1);
    wait_until(arrived_, [others](std::uint32_t n) { return n == others; });
    arrived_.value.store(0, std::memory_order_relaxed);
    bool leave = failed_.load(std::memory_order_relaxed);
    if (!leave) {
      try {
        leave = work_->between(phase);
      } catch (...) {
        failure_ = std::current_exception();
        leave = true;
      }
    }
    leave = leave || phase + 1 == work_->phases();
    release_.value.store(((generation >> 1) + 1) << 1 | (leave ? 1u : 0u));
    wake(release_);
    return leave;
  }
  if (arrived_.value.fetch_add(1) + 2 == static_cast<std::uint32_t>(size_)) wake(arrived_);
  wait_until(release_, [generation](std::uint32_t r) { return r >> 1 != generation >> 1; });
  return (release_.value.load(std::memory_order_relaxed) & 1u) != 0;
}

void Team::walk(int worker) {
  for (std::int64_t phase = 0;; ++phase) {
    run_guarded(phase, worker);
    if (meet(worker, phase)) return;
  }
}

void Team::loop(int worker) {
  name_this_thread("dsv31");
  if (pin_) {
    auto processors = allowed_processors();
    pin_this_thread(processors[static_cast<std::size_t>(worker) % processors.size()]);
  }
  std::uint32_t seen = 0;
  for (;;) {
    wait_until(job_, [seen](std::uint32_t j) { return j != seen; });
    if (stopping_.load(std::memory_order_relaxed)) return;
    ++seen;
    walk(worker);
  }
}

void Team::execute_on_host(Work& work) {
  struct Call {
    Team* team;
    std::int64_t phase;
  };
  for (std::int64_t phase = 0; phase < work.phases(); ++phase) {
    Call call{this, phase};
    executor_->parallel_for(
        size_,
        [](void* arg, int index) {
          auto* c = static_cast<Call*>(arg);
          c->team->run_guarded(c->phase, index);
        },
        &call);
    if (failed_.load(std::memory_order_relaxed) || work.between(phase)) break;
  }
}

void Team::execute(Work& work) {
  std::lock_guard turn(turn_);
  if (work.phases() == 0) return;
  work_ = &work;
  failure_ = nullptr;
  failed_.store(false, std::memory_order_relaxed);
  if (executor_ != nullptr) {
    execute_on_host(work);
  } else if (size_ == 1) {
    for (std::int64_t phase = 0; phase < work.phases(); ++phase) {
      run_guarded(phase, 0);
      if (failed_.load(std::memory_order_relaxed) || work.between(phase)) break;
    }
  } else {
    announce(job_);
    walk(0);
  }
  work_ = nullptr;
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace dsv31::inline v1::sched
