// The model in this repository does what it was trained to do.
#include <cmath>

#include "tests/api/fixtures.h"
#include "tests/catch.h"
#include "tests/trained/tasks.h"

using namespace dsv31;
using namespace dsv31::test;

TEST_CASE("Q8_0, fast arithmetic: as many right answers as the reference in float32, within 2 points") {
  const Shares s = run_tasks(Model::open(runtime_with(1), DSV31_TINY_MODEL), {}, "Q8_0");
  CHECK(s.reference > 0.85);
  CHECK(std::fabs(s.ours - s.reference) <= 0.02);
}
