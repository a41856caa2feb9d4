// Reading runs of rows and packing them, by all workers: of a model that is opened, or of one that is written to a packed file.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lib/io/checkpoint.h"
#include "lib/model/binding.h"
#include "lib/sched/memory.h"
#include "lib/sched/placement.h"
#include "lib/sched/team.h"

namespace dsv31::inline v1::sched {

// The next multiple of 64.
inline std::uint64_t round64(std::uint64_t n) { return (n + 63) / 64 * 64; }

struct Packing final : Team::Work {
  const io::Checkpoint* checkpoint = nullptr;
  const std::vector<model::MatrixSource>* sources = nullptr;
  const Placement* placement = nullptr;
  const BackendList* backends = nullptr;
  const CancelToken* cancel = nullptr;
  const std::function<bool(std::uint64_t done, std::uint64_t total)>* progress = nullptr;
  std::uint64_t total = 0;  // bytes that progress counts to

  // Staging for each worker. Throws no_memory.
  void reserve(const Team& team, const std::shared_ptr<Accountant>& accountant);
  // Matrix `index` of stack `matrix`, to `packed`.
  void add(std::size_t matrix, std::int64_t index, std::byte* packed);
  // Packs what was added. Throws cancelled, io.
  void execute(Team& team);

  std::int64_t phases() const override { return items_.empty() ? 0 : 1; }
  bool between(std::int64_t) override { return false; }
  void run(std::int64_t phase, int worker) override;

 private:
  struct Item {
    std::size_t matrix;
    std::int64_t index, row_begin, row_end;
    std::byte* packed;
  };
  std::vector<Item> items_;
  std::vector<Buffer> staging_;  // by worker
  std::atomic<std::size_t> next_{0};
  std::atomic<std::uint64_t> done_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace dsv31::inline v1::sched
