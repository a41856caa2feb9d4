#include "lib/session/cache_pool.h"

#include <algorithm>
#include <cstring>

namespace dsv31::inline v1::session {
namespace {

std::size_t round64(std::size_t n) { return (n + 63) / 64 * 64; }

}  // namespace

CachePool::CachePool(const std::vector<CacheDesc>& layers, DType type, std::shared_ptr<sched::Accountant> accountant)
    : type_(type), accountant_(std::move(accountant)) {
  const std::size_t element = type == DType::f32 ? 4 : 2;
  for (const CacheDesc& l : layers) {
    BlockKind kind = l.window > 0 ? BlockKind::window : BlockKind::full;
    std::int64_t width = l.width();
    std::size_t bytes = round64(static_cast<std::size_t>(width * kBlock) * element);
    kind_.push_back(kind);
    layer_offset_.push_back(slab_bytes_[static_cast<int>(kind)]);
    layer_bytes_.push_back(bytes);
    slab_bytes_[static_cast<int>(kind)] += bytes * kSlabBlocks;
    window_ = std::max(window_, l.window);
  }
}

template <class F>
void CachePool::each_layer(BlockKind kind, std::int32_t block, F f) const {
  CacheView v = view();
  for (std::size_t l = 0; l < kind_.size(); ++l)
    if (kind_[l] == kind) f(v.block(static_cast<std::int32_t>(l), block), layer_bytes_[l], l);
}

CacheView CachePool::view() const { return {type_, slab_data_.data(), kSlabBlocks, layer_offset_.data(), layer_bytes_.data()}; }

std::int32_t CachePool::acquire(BlockKind kind) {
  auto take = [&](std::size_t slab) -> std::int32_t {
    for (std::int32_t i = 0; i < kSlabBlocks; ++i) {
      std::size_t id = slab * kSlabBlocks + static_cast<std::size_t>(i);
      if (references_[id] != 0) continue;
      references_[id] = 1;
      ++slabs_[slab].used;
      ++in_use_;
      each_layer(kind, static_cast<std::int32_t>(id), [](std::byte* p, std::size_t n, std::size_t) { std::memset(p, 0, n); });
      return static_cast<std::int32_t>(id);
    }
    return -1;
  };
  std::size_t hole = slabs_.size();
  for (std::size_t s = 0; s < slabs_.size(); ++s) {
    if (slabs_[s].used == 0) {
      hole = std::min(hole, s);
    } else if (slabs_[s].kind == kind && slabs_[s].used < kSlabBlocks) {
      return take(s);
    }
  }
  sched::Buffer memory = accountant_->allocate(sched::MemoryClass::cache, slab_bytes_[static_cast<int>(kind)], "session.cache");
  if (hole == slabs_.size()) {
    slabs_.emplace_back();
    slab_data_.push_back(nullptr);
    references_.resize(references_.size() + kSlabBlocks, 0);
  }
  slabs_[hole].memory = std::move(memory);
  slabs_[hole].kind = kind;
  slab_data_[hole] = slabs_[hole].memory.data();
  return take(hole);
}

void CachePool::release(std::int32_t block) noexcept {
  if (--references_[static_cast<std::size_t>(block)] != 0) return;
  --in_use_;
  Slab& slab = slabs_[static_cast<std::size_t>(block / kSlabBlocks)];
  if (--slab.used == 0) {
    slab.memory = sched::Buffer();
    slab_data_[static_cast<std::size_t>(block / kSlabBlocks)] = nullptr;
  }
}

std::int32_t CachePool::copy(BlockKind kind, std::int32_t block) {
  std::int32_t to = acquire(kind);
  CacheView v = view();
  each_layer(kind, block,
             [&](std::byte* p, std::size_t n, std::size_t l) { std::memcpy(v.block(static_cast<std::int32_t>(l), to), p, n); });
  return to;
}

}  // namespace dsv31::inline v1::session
