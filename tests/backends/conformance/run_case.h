// Runs one op case on one backend, in memory full of traps: guards around every buffer that the op may write, NaN in the padding
// of rows, in outputs, in scratch and in cache blocks of the wrong table, and weights in allocations of their exact size.
#pragma once

#include <memory>

#include "tests/backends/conformance/op_case.h"

namespace conformance {

struct RunOptions {
  Numerics numerics{};
  DType cache_type = DType::f32;
  int workers = 1;
  bool stopped = false;    // the step's stop flag is set before the first phase
  std::int64_t chunk = 0;  // rows of a sequence that make a step of their own; 0: all rows of all sequences in one step
};

struct RunResult {
  std::vector<std::vector<float>> outputs;  // by OpCase::outputs: (n, width)
  std::vector<float> cache;                 // all elements of all blocks of all layers
  std::vector<float> cached;                // (n, [K | V] or latent): what the cache holds of the case's rows
  std::vector<std::string> faults;          // overwritten guards or inputs, and allocations while running
};

// Calls of operator new by this thread. (allocations.cc replaces the operator for the test program.)
std::int64_t allocations();

struct FreeAligned {
  void operator()(std::byte* p) const;
};
using AlignedBytes = std::unique_ptr<std::byte, FreeAligned>;
AlignedBytes allocate_aligned(std::size_t bytes);

// The weights of a case in a backend's layout.
struct PackedCase {
  PackedCase(const OpCase& c, const Backend& backend);
  std::vector<AlignedBytes> storage;
  std::vector<PackedMatrix> matrices;
  std::vector<const float*> vectors;
  bool bijection = true;  // unpack gave the source's bytes back
};

RunResult run_case(const OpCase& c, const Backend& backend, const PackedCase& packed, const RunOptions& options);

}  // namespace conformance
