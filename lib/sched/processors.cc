#include "lib/sched/processors.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <thread>

#if defined(__linux__)
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>
#endif

namespace dsv31::inline v1::sched {

#if defined(__linux__)
namespace {

// cgroup v2: "QUOTA PERIOD" in microseconds, or "max PERIOD". 0: no quota.
int cgroup_quota() {
  int fd = ::open("/sys/fs/cgroup/cpu.max", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[64];
  ssize_t n = ::read(fd, text, sizeof text);
  ::close(fd);
  if (n <= 0) return 0;
  std::string_view s(text, static_cast<std::size_t>(n));
  std::int64_t quota = 0, period = 0;
  auto [end, ec] = std::from_chars(s.data(), s.data() + s.size(), quota);
  if (ec != std::errc{} || end == s.data() + s.size()) return 0;
  if (std::from_chars(end + 1, s.data() + s.size(), period).ec != std::errc{} || period <= 0) return 0;
  return static_cast<int>(std::clamp<std::int64_t>(quota / period, 1, 1 << 16));
}

}  // namespace

std::vector<int> allowed_processors() {
  std::vector<int> out;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0)
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set)) out.push_back(i);
  if (out.empty())
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) out.push_back(static_cast<int>(i));
  return out;
}

int usable_processors() {
  int n = static_cast<int>(allowed_processors().size());
  int quota = cgroup_quota();
  return quota > 0 ? std::min(n, quota) : n;
}

bool pin_this_thread(int processor) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  return ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set) == 0;
}

void name_this_thread(const char* name) noexcept { ::pthread_setname_np(::pthread_self(), name); }

#else

std::vector<int> allowed_processors() {
  std::vector<int> out;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) out.push_back(static_cast<int>(i));
  return out;
}
int usable_processors() { return static_cast<int>(allowed_processors().size()); }
bool pin_this_thread(int) noexcept { return false; }
void name_this_thread(const char*) noexcept {}

#endif

}  // namespace dsv31::inline v1::sched
