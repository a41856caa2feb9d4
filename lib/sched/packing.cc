#include "lib/sched/packing.h"

#include <algorithm>

#include "dsv31/error.h"
#include "dsv31/quant.h"

namespace dsv31::inline v1::sched {
namespace {

constexpr std::int64_t kReadBytes = 512 << 10;  // of a work item, about
constexpr std::int64_t kRowGrain = 64;          // rows of a work item are a multiple, as packing wants

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

std::int64_t row_bytes(const MatrixDesc& d) { return format_bytes(d.type, d.cols); }

std::int64_t rows_per_item(const model::MatrixSource& s) {
  if (s.transpose) return s.desc.rows;  // read whole
  std::int64_t n = std::max<std::int64_t>(1, kReadBytes / std::max<std::int64_t>(1, row_bytes(s.desc)));
  return std::max(kRowGrain, n / kRowGrain * kRowGrain);
}

}  // namespace

void Packing::reserve(const Team& team, const std::shared_ptr<Accountant>& accountant) {
  std::int64_t largest = 64;
  for (const model::MatrixSource& s : *sources)
    largest = std::max(largest, std::min(rows_per_item(s), s.desc.rows) * row_bytes(s.desc));
  for (int w = 0; w < team.size(); ++w)
    staging_.push_back(accountant->allocate(MemoryClass::scratch, static_cast<std::size_t>(largest), "model.staging"));
}

void Packing::add(std::size_t matrix, std::int64_t index, std::byte* packed) {
  const model::MatrixSource& source = (*sources)[matrix];
  const std::int64_t rows = source.desc.rows, step = rows_per_item(source);
  for (std::int64_t r = 0; r < rows; r += step) items_.push_back({matrix, index, r, std::min(rows, r + step), packed});
}

void Packing::execute(Team& team) {
  next_.store(0);
  team.execute(*this);
  items_.clear();
  if (stop_.load()) throw Error(Code::cancelled, "model.open", "got a cancel request, expected to finish loading");
}

void Packing::run(std::int64_t, int worker) {
  std::byte* buffer = staging_[static_cast<std::size_t>(worker)].data();
  for (;;) {
    if (cancel && cancel->cancelled()) stop_.store(true, std::memory_order_relaxed);
    if (stop_.load(std::memory_order_relaxed)) return;
    std::size_t i = next_.fetch_add(1, std::memory_order_relaxed);
    if (i >= items_.size()) return;
    const Item& item = items_[i];
    const model::MatrixSource& source = (*sources)[item.matrix];
    try {
      model::read_rows(*checkpoint, source, item.index, item.row_begin, item.row_end, buffer);
      (*backends)[at(placement->packer[item.matrix])]->pack(source.desc, item.row_begin, item.row_end, buffer, item.packed);
    } catch (...) {
      stop_.store(true, std::memory_order_relaxed);  // the other workers need not go on
      throw;
    }
    std::uint64_t bytes = static_cast<std::uint64_t>((item.row_end - item.row_begin) * row_bytes(source.desc));
    std::uint64_t sum = done_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (worker == 0 && *progress && !(*progress)(std::min(sum, total), total)) stop_.store(true, std::memory_order_relaxed);
  }
}

}  // namespace dsv31::inline v1::sched
