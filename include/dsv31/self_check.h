// What Model::self_check() found: whether this machine computes this model as the plain reference says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dsv31/export.h"
#include "dsv31/runtime.h"

namespace dsv31::inline v1 {

struct SelfCheckOptions {
  // Of the prompt that is computed in several ways, 8 to 4096; fewer where the model's context is shorter.
  std::int64_t tokens = 40;
  // Weights that the reference multiplies by in either arithmetic, about: ops of further layers are left out, evenly, and the
  // report says so. At least one op of each kind and weight type is compared, and four experts of every layer.
  std::int64_t weights = 400'000'000;
  const CancelToken* cancel = nullptr;  // read between ops
};

struct SelfCheckRow {
  std::string check;       // "weights", "kernel", "chunks", "threads", "batch", "cache", "expanded", "sparse"
  std::string what;        // the op ("gated_ffn"), the tensor, or the ways compared
  std::string types;       // of the op's matrices, "Q4_K+Q6_K"; or empty
  std::string arithmetic;  // "fast" or "exact"; or empty
  std::int32_t layer = -1;
  bool ok = false;
  // Mean square error over the mean square of the reference, the residual left out, and its limit; 0 and 0 where bits must agree.
  double nmse = 0, limit = 0;
  double cosine = 1;
  std::string note;  // what differs first, or what part was compared
};

struct SelfCheckReport {
  std::vector<SelfCheckRow> rows;
  std::vector<std::string> left_out;  // one sentence each: what was not checked, and why

  bool ok() const noexcept {
    for (const SelfCheckRow& row : rows)
      if (!row.ok) return false;
    return !rows.empty();
  }
};

}  // namespace dsv31::inline v1
