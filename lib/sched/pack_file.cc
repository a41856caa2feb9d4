#include "lib/sched/pack_file.h"

#include <algorithm>
#include <cstring>

#include "lib/io/checksum.h"
#include "lib/io/packed.h"
#include "lib/sched/packing.h"

namespace dsv31::inline v1::sched {
namespace {

constexpr std::uint64_t kBatchBytes = std::uint64_t{64} << 20;

std::vector<io::StoredMatrix> stored_matrices(const PackJob& job) {
  std::vector<io::StoredMatrix> out;
  for (std::size_t m = 0; m < job.matrices->size(); ++m) {
    const model::MatrixSource& source = (*job.matrices)[m];
    const Backend& packer = *(*job.backends)[static_cast<std::size_t>(job.placement->packer[m])];
    out.push_back({.name = std::string(source.desc.name),
                   .layout = std::string(packer.layout()),
                   .type = source.desc.type,
                   .count = source.desc.count,
                   .rows = source.desc.rows,
                   .cols = source.desc.cols,
                   .stride = packer.packed_bytes(source.desc),
                   .scale_count = source.scale_count()});
  }
  return out;
}

// Matrices of a stack that are packed at a time.
std::uint64_t batch(const io::StoredMatrix& m) {
  return std::clamp<std::uint64_t>(kBatchBytes / m.stride, 1, static_cast<std::uint64_t>(m.count));
}

// Bytes one after the other, with their checksum.
class Run {
 public:
  Run(io::OutputFile& to, std::uint64_t offset) : to_(to), at_(offset) {}
  void write(const void* data, std::size_t n) {
    sum_.add(data, n);
    to_.write_at(at_, data, n);
    at_ += n;
  }
  std::uint64_t checksum() const { return sum_.value(); }

 private:
  io::OutputFile& to_;
  std::uint64_t at_;
  io::Checksum sum_;
};

}  // namespace

void write_packed(const PackJob& job, io::OutputFile& to) {
  std::vector<io::StoredMatrix> stored = stored_matrices(job);
  const std::uint64_t begin = io::payload_offset(io::packed_head(*job.checkpoint, stored).size());
  std::uint64_t end = begin, buffer_bytes = 0;
  for (io::StoredMatrix& m : stored) {
    m.offset = end;
    end = round64(end + m.bytes());
    buffer_bytes = std::max(buffer_bytes, m.stride * batch(m));
  }

  const std::function<bool(std::uint64_t, std::uint64_t)> progress = [&](std::uint64_t done, std::uint64_t total) {
    return !job.progress || job.progress(Stage::pack_weights, done, total);
  };
  Packing work;
  work.checkpoint = job.checkpoint;
  work.sources = job.matrices;
  work.placement = job.placement;
  work.backends = job.backends;
  work.cancel = job.cancel;
  work.progress = &progress;
  for (const model::MatrixSource& s : *job.matrices) work.total += s.stored_bytes();
  work.reserve(*job.team, job.accountant);
  const Buffer buffer = job.accountant->allocate(MemoryClass::scratch, static_cast<std::size_t>(buffer_bytes), "model.pack");
  for (std::size_t i = 0; i < stored.size(); ++i) {
    io::StoredMatrix& m = stored[i];
    Run run(to, m.offset);
    const auto step = static_cast<std::int64_t>(batch(m));
    for (std::int64_t first = 0; first < m.count; first += step) {
      const std::int64_t n = std::min(step, m.count - first);
      const auto bytes = static_cast<std::size_t>(m.stride) * static_cast<std::size_t>(n);
      std::memset(buffer.data(), 0, bytes);  // rows of the last strip that do not exist
      for (std::int64_t k = 0; k < n; ++k)
        work.add(i, first + k, buffer.data() + static_cast<std::size_t>(m.stride) * static_cast<std::size_t>(k));
      work.execute(*job.team);
      run.write(buffer.data(), bytes);
    }
    std::vector<float> scales(static_cast<std::size_t>(round64(m.scale_count * sizeof(float)) / sizeof(float)));
    model::read_scales(*job.checkpoint, (*job.matrices)[i], scales.data());
    run.write(scales.data(), scales.size() * sizeof(float));
    m.checksum = run.checksum();
  }
  progress(work.total, work.total);

  const io::Watch watch(&job.progress, job.cancel);
  const io::SourceHash source = io::hash_source(*job.checkpoint, watch);
  const std::string head = io::packed_head(*job.checkpoint, stored);
  const std::string header = io::packed_header({.gguf = job.checkpoint->kind == io::Checkpoint::Kind::gguf,
                                                .source_hash = source.hash,
                                                .source_bytes = source.bytes,
                                                .payload_bytes = end - begin},
                                               head);
  // The gap before the payload is never written and reads as zeros.
  to.write_at(io::kPackedHeaderBytes, head.data(), head.size());
  to.write_at(0, header.data(), header.size());
}

}  // namespace dsv31::inline v1::sched
