#include "lib/sched/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace dsv31::inline v1::sched {
namespace {

constexpr std::size_t kAlignment = 64;

#if defined(__linux__)

// Large blocks are mappings of their own: they go back to the system when they are released, whatever else the heap holds, and
// the heap's size does not swing with models that come and go. Blocks that are streamed from end to end start at a large page,
// which spares a page walk each 4 KiB.
constexpr std::size_t kMapped = std::size_t{64} << 10, kHugePage = std::size_t{2} << 20;

std::byte* default_allocate(std::size_t bytes) {
  if (bytes < kMapped) return static_cast<std::byte*>(::operator new(bytes, std::align_val_t{kAlignment}, std::nothrow));
  const std::size_t slack = bytes >= 2 * kHugePage ? kHugePage : 0;
  if (bytes > SIZE_MAX - slack) return nullptr;
  void* p = ::mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(p);
  if (slack == 0) return begin;
  const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(begin) % kHugePage) % kHugePage;
  if (before != 0) ::munmap(begin, before);
  // The end of the block lies inside a page; what is past that page goes back.
  const std::size_t page = 4096, used = (bytes + page - 1) / page * page;
  if (before + used < bytes + slack) ::munmap(begin + before + used, bytes + slack - before - used);
  ::madvise(begin + before, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return begin + before;
}

void default_release(std::byte* p, std::size_t bytes) noexcept {
  if (bytes < kMapped)
    ::operator delete(p, std::align_val_t{kAlignment});
  else
    ::munmap(p, bytes);
}

#else

std::byte* default_allocate(std::size_t bytes) {
  return static_cast<std::byte*>(::operator new(bytes, std::align_val_t{kAlignment}, std::nothrow));
}
void default_release(std::byte* p, std::size_t) noexcept { ::operator delete(p, std::align_val_t{kAlignment}); }

#endif

}  // namespace

Buffer::Buffer(Buffer&& o) noexcept
    : owner_(std::move(o.owner_)), kind_(o.kind_), data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& o) noexcept {
  if (this != &o) {
    if (owner_ && data_) owner_->release(kind_, data_, size_);
    owner_ = std::move(o.owner_);
    kind_ = o.kind_;
    data_ = std::exchange(o.data_, nullptr);
    size_ = std::exchange(o.size_, 0);
  }
  return *this;
}

Buffer::~Buffer() {
  if (owner_ && data_) owner_->release(kind_, data_, size_);
}

std::uint64_t& Accountant::of(MemoryClass kind) {
  switch (kind) {
    case MemoryClass::weights:
      return use_.weights;
    case MemoryClass::cache:
      return use_.cache;
    case MemoryClass::scratch:
      break;
  }
  return use_.scratch;
}

Buffer Accountant::allocate(MemoryClass kind, std::size_t bytes, std::string_view where) {
  Buffer out;
  if (bytes == 0) return out;
  {
    std::lock_guard lock(mutex_);
    std::uint64_t total = use_.weights + use_.cache + use_.scratch;
    if (budget_ != 0 && (bytes > budget_ || total > budget_ - bytes))
      throw Error(
          Code::no_memory, where,
          fmt::format("got a memory budget of {} bytes with {} in use, expected room for {} more: a budget of {} would do",
                      budget_, total, bytes, total + bytes));
    of(kind) += bytes;
    use_.peak = std::max(use_.peak, total + bytes);
  }
  void* p = nullptr;
  if (hooks_.allocate) {
    p = hooks_.allocate(hooks_.user, bytes, kAlignment);
  } else {
    p = default_allocate(bytes);
  }
  if (p == nullptr) {
    std::lock_guard lock(mutex_);
    of(kind) -= bytes;
    throw Error(Code::no_memory, where, fmt::format("got no memory from the allocator, expected {} bytes", bytes));
  }
  out.owner_ = shared_from_this();
  out.kind_ = kind;
  out.data_ = static_cast<std::byte*>(p);
  out.size_ = bytes;
  return out;
}

Buffer Accountant::allocate_zeroed(MemoryClass kind, std::size_t bytes, std::string_view where) {
  Buffer b = allocate(kind, bytes, where);
  if (bytes != 0) std::memset(b.data(), 0, bytes);
  return b;
}

void Accountant::release(MemoryClass kind, std::byte* data, std::size_t bytes) noexcept {
  if (hooks_.allocate) {
    if (hooks_.release) hooks_.release(hooks_.user, data, bytes);
  } else {
    default_release(data, bytes);
  }
  std::lock_guard lock(mutex_);
  of(kind) -= bytes;
}

MemoryUse Accountant::use() const {
  std::lock_guard lock(mutex_);
  MemoryUse u = use_;
  u.budget = budget_;
  return u;
}

}  // namespace dsv31::inline v1::sched
