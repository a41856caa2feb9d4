// What the whole program takes from operator new, which allocations.cc replaces.
#pragma once

#include <cstdint>

namespace dsv31::test {

struct Allocations {
  std::uint64_t calls = 0, bytes = 0;
};
Allocations allocations() noexcept;  // since the start of the program

// Of the calls between its construction and used().
class AllocationMeter {
 public:
  Allocations used() const noexcept {
    const Allocations now = allocations();
    return {now.calls - begin_.calls, now.bytes - begin_.bytes};
  }

 private:
  Allocations begin_ = allocations();
};

}  // namespace dsv31::test
