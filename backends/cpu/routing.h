// The rows of a step sorted by expert. A slot is one (row, expert) pair; slots stand in ascending expert, inside an expert in
// ascending row, so that an expert's slots are consecutive and so are the rows it made.
#pragma once

#include <cstdint>

#include "backends/cpu/area.h"
#include "dsv31/backend.h"

namespace dsv31::inline v1::cpu {

struct Routing {
  std::int32_t* active_count;  // (1): experts that have slots
  std::int32_t* active;        // (active_count): their ids, ascending
  std::int32_t* begin;         // (active_count + 1): first slot of each
  std::int32_t* row;           // (slots)
  float* weight;               // (slots)
  std::int32_t* first;         // (n_routed_experts + 1): working memory of sort()

  std::int32_t experts() const { return *active_count; }

  static Routing place(Area& area, std::int64_t rows, const Experts& op);
  // Throws backend when an id is outside the experts.
  void sort(const RunContext& c, const Experts& op) const;
};

}  // namespace dsv31::inline v1::cpu
