#include "lib/sched/weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "dsv31/error.h"
#include "dsv31/quant.h"
#include "lib/io/packed.h"
#include "lib/sched/packing.h"

namespace dsv31::inline v1::sched {
namespace {

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

// The matrix that the graph wants against the one that stands in the file.
void check_stored(const io::StoredMatrix& stored, const model::MatrixSource& source, std::size_t stride) {
  const MatrixDesc& d = source.desc;
  const auto shown = [](std::string_view name, DType type, std::int64_t count, std::int64_t rows, std::int64_t cols,
                        std::uint64_t bytes, std::uint64_t scales) {
    return fmt::format("{} {} ({}, {}, {}) of {} bytes and {} scales", io::quoted(name), format(type).name, count, rows, cols,
                       bytes, scales);
  };
  if (stored.name != d.name || stored.type != d.type || stored.count != d.count || stored.rows != d.rows ||
      stored.cols != d.cols || stored.stride != stride || stored.scale_count != source.scale_count())
    throw Error(
        Code::format, "packed",
        fmt::format("got matrix {}, expected {}",
                    shown(stored.name, stored.type, stored.count, stored.rows, stored.cols, stored.stride, stored.scale_count),
                    shown(d.name, d.type, d.count, d.rows, d.cols, stride, source.scale_count())));
}

void too_few(std::size_t got, std::size_t expected) {
  if (got < expected) throw Error(Code::format, "packed", fmt::format("n_matrices: got {}, expected at least {}", got, expected));
}

}  // namespace

std::vector<std::string_view> packed_layouts(const io::PackedContents& packed, std::size_t matrices,
                                             const BackendList& backends) {
  too_few(packed.matrices.size(), matrices);
  std::vector<std::string_view> out;
  for (std::size_t m = 0; m < matrices; ++m) {
    const std::string& layout = packed.matrices[m].layout;
    if (std::none_of(backends.begin(), backends.end(), [&](const auto& b) { return b->layout() == layout; }))
      throw Error(
          Code::unsupported, "packed",
          fmt::format("{}: got layout {}, expected one of this build", io::quoted(packed.matrices[m].name), io::quoted(layout)));
    out.push_back(layout);
  }
  return out;
}

WeightStore::WeightStore(const io::Checkpoint& checkpoint, const std::vector<model::MatrixSource>& matrices,
                         const std::vector<model::VectorSource>& vectors, const Placement& placement,
                         const BackendList& backends) {
  auto place = [this](std::uint64_t bytes) {
    std::size_t offset = bytes_;
    bytes_ = round64(bytes_ + bytes);
    return offset;
  };
  const io::PackedContents* packed = checkpoint.packed.get();
  if (packed != nullptr) too_few(packed->matrices.size(), matrices.size());
  for (std::size_t m = 0; m < matrices.size(); ++m) {
    const MatrixDesc& d = matrices[m].desc;
    PackedMatrix p;
    p.desc = d;
    p.stride = backends[at(placement.packer[m])]->packed_bytes(d);
    matrices_.push_back(p);
    if (packed != nullptr) {
      const io::StoredMatrix& stored = packed->matrices[m];
      check_stored(stored, matrices[m], p.stride);
      matrix_offset_.push_back(static_cast<std::size_t>(stored.offset - packed->payload_offset));
      scale_offset_.push_back(static_cast<std::size_t>(stored.offset + stored.data_bytes() - packed->payload_offset));
      continue;
    }
    matrix_offset_.push_back(place(p.stride * static_cast<std::uint64_t>(d.count)));
    scale_offset_.push_back(place(matrices[m].scale_count() * sizeof(float)));
    source_ += matrices[m].stored_bytes();
  }
  for (const model::VectorSource& v : vectors) {
    vector_offset_.push_back(place(static_cast<std::uint64_t>(row_stride(v.width)) * sizeof(float)));
    source_ += static_cast<std::uint64_t>(format_bytes(v.type, v.width));
  }
  vector_data_.assign(vectors.size(), nullptr);
  if (packed == nullptr) return;
  source_ = packed->payload_bytes;
  if (packed->map) {
    const void* p = packed->file->map(packed->payload_offset, static_cast<std::size_t>(packed->payload_bytes));
    if (reinterpret_cast<std::uintptr_t>(p) % io::kMatrixAlignment == 0) mapping_ = static_cast<const std::byte*>(p);
  }
  if (mapping_ != nullptr) {
    mapped_file_ = packed->file;
    mapped_ = packed->payload_bytes;
  } else {
    payload_at_ = place(packed->payload_bytes);
  }
}

void WeightStore::load(const io::Checkpoint& checkpoint, const std::vector<model::MatrixSource>& matrices,
                       const std::vector<model::VectorSource>& vectors, const Placement& placement, const BackendList& backends,
                       Team& team, const std::shared_ptr<Accountant>& accountant, const CancelToken* cancel,
                       const std::function<bool(std::uint64_t, std::uint64_t)>& progress) {
  memory_ = accountant->allocate(MemoryClass::weights, static_cast<std::size_t>(bytes_), "model.weights");
  for (std::size_t v = 0; v < vectors.size(); ++v) {
    auto* dst = reinterpret_cast<float*>(memory_.data() + vector_offset_[v]);
    std::fill(dst, dst + row_stride(vectors[v].width), 0.0f);
    model::read_vector(checkpoint, vectors[v], dst);
    vector_data_[v] = dst;
  }
  const std::byte* base = mapping_ != nullptr ? mapping_ : memory_.data() + payload_at_;
  for (std::size_t m = 0; m < matrices.size(); ++m) {
    matrices_[m].data = base + matrix_offset_[m];
    if (matrices[m].scale_count() > 0) matrices_[m].scales = reinterpret_cast<const float*>(base + scale_offset_[m]);
  }
  if (checkpoint.packed != nullptr) {
    if (mapping_ == nullptr) read_packed(*checkpoint.packed, cancel, progress);
  } else {
    Packing work;
    work.checkpoint = &checkpoint;
    work.sources = &matrices;
    work.placement = &placement;
    work.backends = &backends;
    work.cancel = cancel;
    work.progress = &progress;
    work.total = source_;
    work.reserve(team, accountant);
    for (std::size_t m = 0; m < matrices.size(); ++m) {
      if (matrices[m].scale_count() > 0)
        model::read_scales(checkpoint, matrices[m], reinterpret_cast<float*>(memory_.data() + scale_offset_[m]));
      for (std::int64_t i = 0; i < matrices[m].desc.count; ++i)
        work.add(m, i, memory_.data() + matrix_offset_[m] + matrices_[m].stride * static_cast<std::size_t>(i));
    }
    work.execute(team);
  }
  if (progress) progress(source_, source_);
}

// The payload into the block, in slices, so that a cancel is seen. One thread: the bytes come from a device, or from the cache at
// the speed of memory.
void WeightStore::read_packed(const io::PackedContents& packed, const CancelToken* cancel,
                              const std::function<bool(std::uint64_t, std::uint64_t)>& progress) {
  constexpr std::uint64_t kSlice = std::uint64_t{4} << 20;
  for (std::uint64_t done = 0; done < packed.payload_bytes;) {
    const std::uint64_t n = std::min(kSlice, packed.payload_bytes - done);
    packed.file->read_at(packed.payload_offset + done, memory_.data() + payload_at_ + done, static_cast<std::size_t>(n));
    done += n;
    if ((cancel && cancel->cancelled()) || (progress && !progress(done, packed.payload_bytes)))
      throw Error(Code::cancelled, "model.open", "got a cancel request, expected to finish loading");
  }
}

}  // namespace dsv31::inline v1::sched
