// Runs a case on the reference backend and compares with what a reader worked out by hand.
#pragma once

#include <cmath>

#include "dsv31/error.h"
#include "tests/backends/conformance/run_case.h"
#include "tests/catch.h"

namespace conformance {

inline RunResult run_reference(const OpCase& c, DType cache_type = DType::f32) {
  const std::unique_ptr<Backend> backend = make_reference_backend();
  const PackedCase packed(c, *backend);
  RunResult r = run_case(c, *backend, packed, {.cache_type = cache_type});
  CHECK(r.faults.empty());
  return r;
}

// Equal to the digits that the literals are written with: seven.
inline void expect(const std::vector<float>& got, const std::vector<double>& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i, got[i], want[i]);
    CHECK(std::abs(static_cast<double>(got[i]) - want[i]) <= 2e-7 * std::abs(want[i]));
  }
}

}  // namespace conformance
