// A graph made ready for one kind of arithmetic: its ops prepared on their backends, and the walk of a step through them.
//
// Everything that a step needs is planned beforehand: values live in one arena, scratch of all ops in one area (only one op runs
// at a time). The last op is the head; it may run several times, on a few rows at a time, so that the logits of a long prompt
// never stand in memory all at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dsv31/backend.h"
#include "dsv31/runtime.h"
#include "lib/graph/graph.h"
#include "lib/sched/expert_count.h"
#include "lib/sched/memory.h"
#include "lib/sched/placement.h"
#include "lib/sched/team.h"

namespace dsv31::inline v1::sched {

// Rows of logits that are computed at a time.
inline constexpr std::int64_t kLogitRows = 32;

struct WeightView {
  const PackedMatrix* matrices = nullptr;
  const float* const* vectors = nullptr;
};

class Program {
 public:
  // The graph, the backends and the weights must outlive the program. weights may be empty: the program then only plans.
  Program(const Graph& graph, const BackendList& backends, Placement placement, WeightView weights, Numerics numerics,
          DType cache_type);

  const Graph& graph() const noexcept { return *graph_; }
  const Placement& placement() const noexcept { return placement_; }
  const PreparedOp& op(std::size_t i) const { return *ops_[i]; }
  DType cache_type() const noexcept { return cache_type_; }

  // Bytes that a step of at most max_rows rows needs.
  std::size_t workspace_bytes(std::int64_t max_rows, int workers) const;

 private:
  friend class Workspace;
  const Graph* graph_;
  Placement placement_;
  DType cache_type_;
  std::vector<std::unique_ptr<PreparedOp>> ops_;
};

// What of a graph runs: all up to its logits, or the layer that drafts.
enum class Section : std::uint8_t { trunk, draft };

// The memory of the steps of a model, grown to the largest step seen; one step at a time.
class Workspace {
 public:
  using LogitSink = std::function<void(std::span<const std::int32_t> rows, std::span<const float> logits, std::int64_t stride)>;

  // Grows to steps of max_rows rows; throws no_memory and leaves everything as it was.
  void reserve(const Program& program, std::int64_t max_rows, const Team& team, const std::shared_ptr<Accountant>& accountant);
  // Runs the step. The sink gets the logits of step.logit_rows, at most kLogitRows at a time, rows of `stride` floats. Throws
  // cancelled, or what a worker threw; the cache slots of the step's rows then hold anything and nothing else has changed.
  // `step.cache` must hold blocks of the program's cache type for all rows. REQUIRES: reserve() for at least this many rows.
  // A state or a logit that is not a finite number is an error `backend`, which names the op and the layer it came from.
  void run(const Program& program, const Step& step, Team& team, const CancelToken* cancel, const LogitSink& sink,
           Section section = Section::trunk);
  // Runs the trunk an op at a time, for inspection: before(i) finds the values that op i is about to read, and false ends the
  // walk. Nothing is checked or counted. REQUIRES: as run(); at most kLogitRows wanted rows.
  void visit(const Program& program, const Step& step, Team& team, const std::function<bool(std::size_t op)>& before);
  // A value of the program reserved for: what the last run left of it, or what the next one is to find.
  float* value(ValueId id) const { return values_[static_cast<std::size_t>(id)]; }
  // Counts what the gates choose from now on; null: not.
  void count(ExpertCount* experts) noexcept { experts_ = experts; }
  // Barriers of the last run.
  std::int64_t phases() const noexcept { return last_phases_; }

 private:
  struct Walk;
  void prepare(Walk& walk, const Program& program, const Step& step, const Team& team, const CancelToken* cancel);
  void execute(Walk& walk, const Program& program, std::size_t begin, std::size_t end, Team& team);
  [[noreturn]] void blame(Walk& walk, const Program& program, std::size_t begin, std::size_t end, Team& team);
  Buffer arena_, scratch_;
  std::vector<float*> values_;
  std::vector<std::pair<std::size_t, int>> order_;  // (op, phase)
  std::int64_t rows_ = 0;
  const Program* program_ = nullptr;
  ExpertCount* experts_ = nullptr;
  std::int64_t last_phases_ = 0;
};

}  // namespace dsv31::inline v1::sched
