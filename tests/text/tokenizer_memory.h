// Bytes that the program holds from operator new, which tokenizer_memory.cc replaces.
#pragma once

#include <cstddef>

namespace dsv31::test {

// The most that was held at once since its construction, above what was held then. One at a time.
class MemoryMeter {
 public:
  MemoryMeter() noexcept;
  std::size_t peak() const noexcept;

 private:
  std::size_t start_;
};

}  // namespace dsv31::test
