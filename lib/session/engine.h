// Moves timelines forward: gathers the rows of any number of them into steps of at most `chunk` rows and runs the program.
//
// One engine a model. Steps of one model take turns (a step uses all workers anyway); callers from several threads wait for each
// other. To compute many sessions together, pass them together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "lib/sched/program.h"
#include "lib/session/cache_pool.h"
#include "lib/session/draft_state.h"
#include "lib/session/timeline.h"

namespace dsv31::inline v1::session {

// One kind of arithmetic of a model with its cache blocks.
struct Lane {
  Lane(sched::Program p, const Graph& graph, std::shared_ptr<sched::Accountant> accountant)
      : program(std::move(p)), pool(graph.caches, program.cache_type(), std::move(accountant)) {}
  sched::Program program;
  CachePool pool;
};

struct EngineParts {
  const Graph* graph = nullptr;
  const sched::BackendList* backends = nullptr;
  sched::Team* team = nullptr;
  std::shared_ptr<sched::Accountant> accountant;
  sched::Preference preference;
  std::vector<std::string_view> layouts;  // of the packed matrices
  sched::WeightView weights;
  bool count_experts = false;
};

class Engine {
 public:
  explicit Engine(EngineParts parts);

  // The lane of these numerics, made at first use. Throws unsupported.
  Lane& lane(Numerics numerics);

  struct Item {
    Timeline* timeline = nullptr;                      // its tokens from cached() on are computed
    std::int64_t logits_from = std::int64_t{1} << 62;  // positions whose logits are wanted besides the last one's
    DraftState* draft = nullptr;                       // follows, in models that have the layer
    // Logits of the draft layer's entries, if wanted: (first entry, rows, row stride).
    std::function<void(std::int64_t, std::span<const float>, std::int64_t)> draft_sink;
    // Gets (first position, rows, row stride); rows come in ascending order.
    std::function<void(std::int64_t, std::span<const float>, std::int64_t)> sink;
  };
  // Computes what the items lack, all of one lane. Complete steps stay when it throws.
  // progress gets the number of tokens computed so far; false cancels.
  void advance(Lane& lane, std::span<Item> items, std::int64_t chunk, const CancelToken* cancel,
               const std::function<bool(std::uint64_t, std::uint64_t)>& progress = {});

  // Up to k drafts of the model's own layer after the timeline's last token, the only one that is not in the cache: choose gets
  // the logits of each and says which token it is.
  void draft(Lane& lane, Timeline& timeline, DraftState& state, int k, std::int64_t chunk, const CancelToken* cancel,
             const std::function<Token(std::span<const float>)>& choose);

  // What touches a pool or a timeline's blocks outside advance happens under this lock.
  std::mutex& mutex() { return mutex_; }
  // What the gates chose in complete steps; null where it is not counted. Changes under the lock.
  const sched::ExpertCount* experts() const noexcept { return experts_.get(); }
  // Barriers of the last step.
  std::int64_t last_phases() const { return workspace_.phases(); }

 private:
  struct Rows;
  // The draft layer on entries [entry, entry + tokens.size()): tokens are those at entry + 1 and on, states (tokens,
  // hidden_size). The sink gets the logits of the last entry, or of all; next, if not null, the layer's own state of the last
  // one.
  struct Entries {
    std::int64_t entry = 0;
    std::span<const Token> tokens{};
    const float* states = nullptr;
    bool all_logits = false;
    float* next = nullptr;
    std::function<void(std::int64_t, std::span<const float>, std::int64_t)> sink{};
  };
  void run_draft(Lane& lane, const Timeline& timeline, const Entries& entries, std::int64_t chunk, const CancelToken* cancel);
  // Brings the draft layer's cache up to the tokens that there are.
  void follow(Lane& lane, Item& item, std::int64_t chunk, const CancelToken* cancel);
  void step(Lane& lane, std::span<Item> items, std::int64_t chunk, const CancelToken* cancel);

  EngineParts parts_;
  std::mutex mutex_;
  std::unique_ptr<Lane> lanes_[4];  // exact + 2 * relaxed
  std::unique_ptr<sched::ExpertCount> experts_;
  sched::Workspace workspace_;
  // Of the step being made; kept so that a step allocates nothing.
  std::vector<std::int32_t> tokens_, positions_, sequence_of_row_, logit_rows_, item_of_logit_;
  std::vector<std::int32_t> draft_positions_, draft_rows_, draft_logits_;
  std::vector<SequenceRows> sequences_;
  std::vector<std::pair<std::size_t, std::int64_t>> parts_of_step_;  // (item, rows)
};

}  // namespace dsv31::inline v1::session
