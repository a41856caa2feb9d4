#include "lib/sched/memory.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "dsv31/error.h"
#include "tests/catch.h"

using namespace dsv31;
using sched::Accountant;
using sched::Buffer;
using sched::MemoryClass;

TEST_CASE("memory is counted by class and comes back") {
  auto a = std::make_shared<Accountant>(Allocator{}, 0);
  {
    Buffer weights = a->allocate(MemoryClass::weights, 1000, "w");
    Buffer cache = a->allocate_zeroed(MemoryClass::cache, 200, "c");
    CHECK(reinterpret_cast<std::uintptr_t>(weights.data()) % 64 == 0);
    for (std::size_t i = 0; i < 200; ++i) REQUIRE(cache.data()[i] == std::byte{0});
    Buffer moved = std::move(cache);
    CHECK(cache.data() == nullptr);
    CHECK(moved.size() == 200);
    CHECK(a->use().weights == 1000);
    CHECK(a->use().cache == 200);
    CHECK(a->use().peak == 1200);
  }
  CHECK(a->use().weights == 0);
  CHECK(a->use().cache == 0);
  CHECK(a->use().peak == 1200);
}

TEST_CASE("the budget holds and the error names the number that would do") {
  auto a = std::make_shared<Accountant>(Allocator{}, 1000);
  Buffer one = a->allocate(MemoryClass::weights, 600, "w");
  try {
    Buffer two = a->allocate(MemoryClass::cache, 401, "session.cache");
    FAIL("expected no_memory");
  } catch (const Error& e) {
    CHECK(e.code() == Code::no_memory);
    CHECK(std::string(e.what()).find("[session.cache]") == 0);
    CHECK(std::string(e.what()).find("a budget of 1001 would do") != std::string::npos);
  }
  CHECK(a->use().cache == 0);
  Buffer fits = a->allocate(MemoryClass::cache, 400, "session.cache");
  CHECK(fits.size() == 400);
  CHECK_THROWS_AS(a->allocate(MemoryClass::cache, SIZE_MAX, "c"), Error);
}

TEST_CASE("the host's hooks get every allocation and its size back") {
  struct Host {
    std::size_t live = 0, calls = 0;
    bool refuse = false;
  } host;
  Allocator hooks{[](void* user, std::size_t n, std::size_t align) -> void* {
                    auto* h = static_cast<Host*>(user);
                    ++h->calls;
                    if (h->refuse) return nullptr;
                    h->live += n;
                    return std::aligned_alloc(align, (n + align - 1) / align * align);
                  },
                  [](void* user, void* p, std::size_t n) {
                    static_cast<Host*>(user)->live -= n;
                    std::free(p);
                  },
                  &host};
  auto a = std::make_shared<Accountant>(hooks, 0);
  {
    Buffer b = a->allocate(MemoryClass::scratch, 100, "s");
    CHECK(host.live == 100);
    host.refuse = true;
    CHECK_THROWS_AS(a->allocate(MemoryClass::scratch, 100, "s"), Error);
    CHECK(a->use().scratch == 100);
  }
  CHECK(host.live == 0);
  CHECK(host.calls == 2);
}
