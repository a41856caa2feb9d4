// The weights of a model in memory: every matrix in the layout of its backend, every vector as float32, in one block.
//
// Workers read runs of rows with positioned reads and pack them at once, so that loading never holds more than the packed weights
// and a few hundred KiB a worker. The matrices of a packed file are used where they stand in its mapping, or read into the block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lib/io/checkpoint.h"
#include "lib/model/binding.h"
#include "lib/sched/memory.h"
#include "lib/sched/placement.h"
#include "lib/sched/program.h"
#include "lib/sched/team.h"

namespace dsv31::inline v1::sched {

class WeightStore {
 public:
  WeightStore() = default;
  // Lays the weights out without taking memory. The sources must outlive load(). Of a packed file: format where its matrices are
  // not those of the sources.
  WeightStore(const io::Checkpoint& checkpoint, const std::vector<model::MatrixSource>& matrices,
              const std::vector<model::VectorSource>& vectors, const Placement& placement, const BackendList& backends);

  std::uint64_t bytes() const noexcept { return bytes_ + mapped_; }  // packed, vectors and scales included
  std::uint64_t mapped_bytes() const noexcept { return mapped_; }    // of these, in the mapping of a packed file
  std::uint64_t source_bytes() const noexcept { return source_; }    // to read

  // Throws no_memory, io, cancelled; progress is called on this thread with bytes read.
  void load(const io::Checkpoint& checkpoint, const std::vector<model::MatrixSource>& matrices,
            const std::vector<model::VectorSource>& vectors, const Placement& placement, const BackendList& backends, Team& team,
            const std::shared_ptr<Accountant>& accountant, const CancelToken* cancel,
            const std::function<bool(std::uint64_t done, std::uint64_t total)>& progress);

  WeightView view() const { return {matrices_.data(), vector_data_.data()}; }
  const PackedMatrix& matrix(std::size_t i) const { return matrices_[i]; }
  const std::vector<PackedMatrix>& matrices() const { return matrices_; }

 private:
  void read_packed(const io::PackedContents& packed, const CancelToken* cancel,
                   const std::function<bool(std::uint64_t, std::uint64_t)>& progress);

  std::vector<PackedMatrix> matrices_;
  // In the block, or in the payload of a packed file.
  std::vector<std::size_t> matrix_offset_, scale_offset_;
  std::vector<std::size_t> vector_offset_;  // in the block
  std::vector<const float*> vector_data_;
  std::uint64_t bytes_ = 0, mapped_ = 0, source_ = 0;
  Buffer memory_;
  std::size_t payload_at_ = 0;                 // of a packed file that is read, in the block
  const std::byte* mapping_ = nullptr;         // of the payload
  std::shared_ptr<const Reader> mapped_file_;  // keeps it
};

// The layouts that the matrices of a packed file have, for placing. Throws unsupported where no backend has one of them.
std::vector<std::string_view> packed_layouts(const io::PackedContents& packed, std::size_t matrices, const BackendList& backends);

}  // namespace dsv31::inline v1::sched
