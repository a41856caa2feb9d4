// A graph of one op with random weights, and a driver that runs a prepared op with any number of workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "backends/cpu/matmul.h"
#include "backends/simd/isa.h"

namespace dsv31::test {

inline std::vector<simd::Isa> isas() {
  std::vector<simd::Isa> list;
  for (simd::Isa isa : {simd::Isa::generic, simd::Isa::avx2, simd::Isa::avx512})
    if (simd::supported(isa)) list.push_back(isa);
  return list;
}

// Memory at a multiple of 64 bytes, of exactly the size asked for, so that a sanitizer sees any access past it.
class Aligned {
 public:
  explicit Aligned(std::size_t bytes, int fill = 0);
  std::byte* data() { return reinterpret_cast<std::byte*>(memory_.get()); }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(memory_.get());
  }

 private:
  struct Free {
    void operator()(void* p) const;
  };
  std::unique_ptr<void, Free> memory_;
};

std::vector<float> normal(std::size_t n, std::uint32_t seed, float deviation = 1);
// Bytes of a dense (rows, cols) matrix of a float type with values of about this size.
std::vector<std::byte> float_matrix(DType type, std::int64_t elements, std::uint32_t seed, float deviation);

class Rig {
 public:
  explicit Rig(const cpu::KernelTable& kernels) : kernels_(kernels) {}

  MatrixId matrix(DType type, std::int64_t count, std::int64_t rows, std::int64_t cols, std::uint32_t seed);
  VectorId vector(std::int64_t n, std::uint32_t seed, float around = 0);
  ValueId value(std::int64_t width, bool logits = false);

  Graph graph;
  PrepareContext context(Numerics numerics = {});

  // Runs the op on rows.size() rows: row i of every input is `input(value, rows[i])`, so the same row number always means the
  // same numbers. Returns, for each of `outputs`, its rows without padding, one after the other.
  struct Run {
    std::vector<std::int32_t> rows;
    std::vector<std::int32_t> logit_rows;
    int workers = 1;
    bool threads = false;  // real threads; else one worker after the other, in each phase another one first
  };
  std::vector<float> run(const PreparedOp& op, const std::vector<ValueId>& inputs, const std::vector<ValueId>& outputs,
                         const Run& run);
  // Overrides the random row: (value, row) -> numbers. Set by tests of ops whose inputs are ids.
  std::vector<float> (*input)(ValueId value, std::int64_t width, std::int32_t row) = nullptr;

 private:
  const cpu::KernelTable& kernels_;
  std::vector<std::unique_ptr<Aligned>> memory_;
  std::vector<PackedMatrix> matrices_;
  std::vector<std::vector<float>> vectors_, scales_;
  std::vector<const float*> vector_pointers_;
};

}  // namespace dsv31::test
