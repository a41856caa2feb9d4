// A checkpoint understood: its hyperparameters, the ops that run it, and where each of their weights stands in the files.
// Nothing but headers (and the few floats of rope_freqs.weight) has been read at this point.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "dsv31/op.h"
#include "lib/io/checkpoint.h"
#include "lib/model/binding.h"
#include "lib/model/config.h"

namespace dsv31::inline v1::model {

struct ModelSpec {
  Config config;
  Graph graph;                             // validated; its MatrixDesc::name point into `names`
  std::vector<MatrixSource> matrices;      // by MatrixId
  std::vector<VectorSource> vectors;       // by VectorId
  std::vector<std::string> extra_tensors;  // in the files, but of no use to the graph: listed, not refused
  std::vector<std::string> warnings;       // one sentence each

  // Owner of all names above. Keep it as long as a copy of the graph is in use; moving it moves no name.
  std::deque<std::string> names;

  ModelSpec() = default;
  ModelSpec(ModelSpec&&) = default;
  ModelSpec& operator=(ModelSpec&&) = default;
};

struct BuildOptions {
  bool mtp = false;  // with the layer that drafts, where the checkpoint has one
};

// Throws unsupported (architecture or variant), format (a hyperparameter, by key), mismatch (a tensor that is missing or has
// another shape or type than the config says, by name).
ModelSpec build_model(const io::Checkpoint& checkpoint, const BuildOptions& options = {});

}  // namespace dsv31::inline v1::model
