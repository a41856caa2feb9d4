// Counts the allocations of each thread by replacing operator new in the test program.
#include <cstdlib>
#include <new>

#include "tests/backends/conformance/run_case.h"

namespace {
thread_local std::int64_t count = 0;
}

namespace conformance {
std::int64_t allocations() { return count; }
}  // namespace conformance

void* operator new(std::size_t bytes) {
  ++count;
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++count;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
