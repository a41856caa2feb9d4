// Writing a packed file (lib/io/packed.h): matrix after matrix is read, packed by all workers and written, so that no more than a
// matrix of a stack, or 64 MiB of them, is in memory at a time.
#pragma once

#include <memory>
#include <vector>

#include "lib/io/checkpoint.h"
#include "lib/io/output_file.h"
#include "lib/model/binding.h"
#include "lib/sched/memory.h"
#include "lib/sched/placement.h"
#include "lib/sched/team.h"

namespace dsv31::inline v1::sched {

struct PackJob {
  const io::Checkpoint* checkpoint = nullptr;  // no packed one
  const std::vector<model::MatrixSource>* matrices = nullptr;
  const Placement* placement = nullptr;
  const BackendList* backends = nullptr;
  Team* team = nullptr;
  std::shared_ptr<Accountant> accountant;
  Progress progress;  // pack_weights, bytes of the source
  const CancelToken* cancel = nullptr;
};

// Writes all of `to` but does not commit it. Throws io, no_memory, cancelled.
void write_packed(const PackJob& job, io::OutputFile& to);

}  // namespace dsv31::inline v1::sched
