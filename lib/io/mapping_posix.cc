#include <sys/mman.h>
#include <sys/stat.h>

#include <limits>
#include <new>

#include "lib/io/mapping.h"

namespace dsv31::inline v1::io {

std::unique_ptr<Mapping> Mapping::create(int fd, std::uint64_t bytes) noexcept {
  if (bytes == 0 || bytes > std::numeric_limits<std::size_t>::max()) return nullptr;
  struct stat s{};
  if (fstat(fd, &s) != 0 || static_cast<std::uint64_t>(s.st_size) < bytes) return nullptr;
  const auto n = static_cast<std::size_t>(bytes);
  void* base = mmap(nullptr, n, PROT_READ, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return nullptr;
  auto* mapping = new (std::nothrow) Mapping(base, n);
  if (mapping == nullptr) munmap(base, n);
  return std::unique_ptr<Mapping>(mapping);
}

Mapping::~Mapping() { munmap(base_, bytes_); }

}  // namespace dsv31::inline v1::io
