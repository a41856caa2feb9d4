#include "backends/cpu/routing.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "dsv31/error.h"

namespace dsv31::inline v1::cpu {

Routing Routing::place(Area& area, std::int64_t rows, const Experts& op) {
  const std::int64_t slots = rows * op.num_experts_per_tok, most = std::min(slots, op.n_routed_experts);
  Routing r{};
  r.active_count = area.take<std::int32_t>(1);
  r.active = area.take<std::int32_t>(most);
  r.begin = area.take<std::int32_t>(most + 1);
  r.row = area.take<std::int32_t>(slots);
  r.weight = area.take<float>(slots);
  r.first = area.take<std::int32_t>(op.n_routed_experts + 1);
  return r;
}

void Routing::sort(const RunContext& c, const Experts& op) const {
  const std::int64_t n = c.step->rows(), k = op.num_experts_per_tok, experts = op.n_routed_experts;
  std::fill_n(first, experts + 1, 0);
  for (std::int64_t r = 0; r < n; ++r)
    for (std::int64_t j = 0; j < k; ++j) {
      const auto e = std::bit_cast<std::int32_t>(c.row(op.ids, r, k)[j]);
      if (e < 0 || e >= experts)
        throw Error{Code::backend, "cpu.experts", fmt::format("got expert {}, expected one of {}", e, experts)};
      if (++first[e + 1] > n)
        throw Error{Code::backend, "cpu.experts", fmt::format("got expert {} twice for a row, expected each once", e)};
    }
  std::int32_t count = 0;
  for (std::int64_t e = 0; e < experts; ++e) {
    if (first[e + 1] != 0) {
      active[count] = static_cast<std::int32_t>(e);
      begin[count++] = first[e];
    }
    first[e + 1] += first[e];
  }
  begin[count] = first[experts];
  *active_count = count;
  for (std::int64_t r = 0; r < n; ++r)
    for (std::int64_t j = 0; j < k; ++j) {
      const std::int32_t slot = first[std::bit_cast<std::int32_t>(c.row(op.ids, r, k)[j])]++;
      row[slot] = static_cast<std::int32_t>(r);
      weight[slot] = c.row(op.weights, r, k)[j];
    }
}

}  // namespace dsv31::inline v1::cpu
