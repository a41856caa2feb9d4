#include "lib/sched/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "dsv31/error.h"
#include "dsv31/quant.h"

namespace dsv31::inline v1::sched {
namespace {

constexpr std::int64_t kReadBytes = 512 << 10;  // of a work item, about
constexpr std::int64_t kRowGrain = 64;          // rows of a work item are a multiple, as packing wants

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
std::uint64_t round64(std::uint64_t n) { return (n + 63) / 64 * 64; }

std::int64_t row_bytes(const MatrixDesc& d) { return format_bytes(d.type, d.cols); }

std::int64_t rows_per_item(const model::MatrixSource& s) {
  if (s.transpose) return s.desc.rows;  // read whole
  std::int64_t n = std::max<std::int64_t>(1, kReadBytes / std::max<std::int64_t>(1, row_bytes(s.desc)));
  return std::max(kRowGrain, n / kRowGrain * kRowGrain);
}

}  // namespace

WeightStore::WeightStore(const std::vector<model::MatrixSource>& matrices, const std::vector<model::VectorSource>& vectors,
                         const Placement& placement, const BackendList& backends) {
  auto place = [this](std::uint64_t bytes) {
    std::size_t offset = bytes_;
    bytes_ = round64(bytes_ + bytes);
    return offset;
  };
  for (std::size_t m = 0; m < matrices.size(); ++m) {
    const MatrixDesc& d = matrices[m].desc;
    PackedMatrix p;
    p.desc = d;
    p.stride = backends[at(placement.packer[m])]->packed_bytes(d);
    matrix_offset_.push_back(place(p.stride * static_cast<std::uint64_t>(d.count)));
    scale_offset_.push_back(place(matrices[m].scale_count() * sizeof(float)));
    matrices_.push_back(p);
    source_ += matrices[m].stored_bytes();
  }
  for (const model::VectorSource& v : vectors) {
    vector_offset_.push_back(place(static_cast<std::uint64_t>(row_stride(v.width)) * sizeof(float)));
    source_ += static_cast<std::uint64_t>(format_bytes(v.type, v.width));
  }
  vector_data_.assign(vectors.size(), nullptr);
}

struct WeightStore::Packing final : Team::Work {
  struct Item {
    std::size_t matrix;
    std::int64_t index, row_begin, row_end;
  };
  WeightStore* store;
  const io::Checkpoint* checkpoint;
  const std::vector<model::MatrixSource>* sources;
  const Placement* placement;
  const BackendList* backends;
  const CancelToken* cancel;
  const std::function<bool(std::uint64_t, std::uint64_t)>* progress;
  std::vector<Item> items;
  std::vector<Buffer> staging;  // by worker
  std::atomic<std::size_t> next{0};
  std::atomic<std::uint64_t> done{0};
  std::atomic<bool> stop{false};

  std::int64_t phases() const override { return items.empty() ? 0 : 1; }
  bool between(std::int64_t) override { return false; }

  void run(std::int64_t, int worker) override {
    std::byte* buffer = staging[static_cast<std::size_t>(worker)].data();
    for (;;) {
      if (cancel && cancel->cancelled()) stop.store(true, std::memory_order_relaxed);
      if (stop.load(std::memory_order_relaxed)) return;
      std::size_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= items.size()) return;
      const Item& item = items[i];
      const model::MatrixSource& source = (*sources)[item.matrix];
      try {
        model::read_rows(*checkpoint, source, item.index, item.row_begin, item.row_end, buffer);
        std::byte* packed = store->memory_.data() + store->matrix_offset_[item.matrix] +
                            store->matrices_[item.matrix].stride * static_cast<std::size_t>(item.index);
        (*backends)[at(placement->packer[item.matrix])]->pack(source.desc, item.row_begin, item.row_end, buffer, packed);
      } catch (...) {
        stop.store(true, std::memory_order_relaxed);  // the other workers need not go on
        throw;
      }
      std::uint64_t bytes = static_cast<std::uint64_t>((item.row_end - item.row_begin) * row_bytes(source.desc));
      std::uint64_t sum = done.fetch_add(bytes, std::memory_order_relaxed) + bytes;
      if (worker == 0 && *progress && !(*progress)(std::min(sum, store->source_), store->source_))
        stop.store(true, std::memory_order_relaxed);
    }
  }
};

void WeightStore::load(const io::Checkpoint& checkpoint, const std::vector<model::MatrixSource>& matrices,
                       const std::vector<model::VectorSource>& vectors, const Placement& placement, const BackendList& backends,
                       Team& team, const std::shared_ptr<Accountant>& accountant, const CancelToken* cancel,
                       const std::function<bool(std::uint64_t, std::uint64_t)>& progress) {
  memory_ = accountant->allocate(MemoryClass::weights, bytes_, "model.weights");
  for (std::size_t v = 0; v < vectors.size(); ++v) {
    auto* dst = reinterpret_cast<float*>(memory_.data() + vector_offset_[v]);
    std::fill(dst, dst + row_stride(vectors[v].width), 0.0f);
    model::read_vector(checkpoint, vectors[v], dst);
    vector_data_[v] = dst;
  }
  Packing work;
  work.store = this;
  work.checkpoint = &checkpoint;
  work.sources = &matrices;
  work.placement = &placement;
  work.backends = &backends;
  work.cancel = cancel;
  work.progress = &progress;
  std::int64_t largest = 0;
  for (std::size_t m = 0; m < matrices.size(); ++m) {
    matrices_[m].data = memory_.data() + matrix_offset_[m];
    if (matrices[m].scale_count() > 0) {
      auto* dst = reinterpret_cast<float*>(memory_.data() + scale_offset_[m]);
      model::read_scales(checkpoint, matrices[m], dst);
      matrices_[m].scales = dst;
    }
    const MatrixDesc& d = matrices[m].desc;
    const std::int64_t step = rows_per_item(matrices[m]);
    for (std::int64_t index = 0; index < d.count; ++index)
      for (std::int64_t r = 0; r < d.rows; r += step) work.items.push_back({m, index, r, std::min(d.rows, r + step)});
    largest = std::max(largest, std::min(step, d.rows) * row_bytes(d));
  }
  for (int w = 0; w < team.size(); ++w)
    work.staging.push_back(accountant->allocate(MemoryClass::scratch,
                                                static_cast<std::size_t>(std::max<std::int64_t>(largest, 64)), "model.staging"));
  team.execute(work);
  if (work.stop.load()) throw Error(Code::cancelled, "model.open", "got a cancel request, expected to finish loading");
  if (progress) progress(source_, source_);
}

}  // namespace dsv31::inline v1::sched
