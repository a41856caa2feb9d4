// One op on a CPU backend with random weights, run by a team of workers as a step of `rows` tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dsv31/backend.h"
#include "dsv31/profile.h"
#include "lib/sched/team.h"

namespace dsv31::bench {

class OpRig {
 public:
  OpRig(const std::string& isa, int threads) : backend_(make_quantized_backend(isa)), team_({.threads = threads}) {}

  MatrixId matrix(DType type, std::int64_t count, std::int64_t rows, std::int64_t cols);
  VectorId vector(std::int64_t n);
  ValueId value(std::int64_t width);
  // A cache of one layer for this many keys.
  void cache(const CacheDesc& desc, std::int64_t keys);

  // A step of rows tokens of one sequence from `position` on. With `copies` the op is prepared that often, each time with
  // matrices of its own, so that running them in turn reads from memory and not from the caches.
  void prepare(const Op& op, std::int64_t rows, std::int64_t position, int copies);
  void run();
  std::uint64_t packed_bytes() const { return packed_bytes_; }  // of one copy

 private:
  struct Release {
    void operator()(std::byte* p) const;
  };
  using Bytes = std::unique_ptr<std::byte[], Release>;
  static Bytes aligned(std::size_t bytes);

  std::unique_ptr<Backend> backend_;
  sched::Team team_;
  Graph graph_;
  std::vector<PackedMatrix> matrices_;
  std::vector<std::vector<float>> vectors_;
  std::vector<Bytes> memory_;
  std::vector<float*> values_;
  std::vector<std::unique_ptr<PreparedOp>> ops_;
  std::vector<std::vector<PackedMatrix>> copies_;
  std::vector<const float*> vector_pointers_;
  std::vector<std::int32_t> tokens_, positions_, sequence_of_row_, blocks_;
  SequenceRows sequence_;
  CacheView view_;
  std::vector<std::byte*> slabs_;
  std::size_t layer_offset_ = 0, layer_bytes_ = 0;
  Step step_;
  std::byte* scratch_ = nullptr;
  std::uint64_t packed_bytes_ = 0;
  std::size_t turn_ = 0;
};

// Of this instruction set with this many threads, measured once.
const MachineProfile& machine(const std::string& isa, int threads);
// The instruction sets that this processor has, best last.
std::vector<std::string> isas();

}  // namespace dsv31::bench
