// What a Model handle stands for. Members are in order of construction; the engine goes first when the model goes.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dsv31/model.h"
#include "lib/api/runtime_impl.h"
#include "lib/io/checkpoint.h"
#include "lib/model/spec.h"
#include "lib/sched/weight_sums.h"
#include "lib/sched/weights.h"
#include "lib/session/engine.h"

namespace dsv31::inline v1 {

struct Model::Impl {
  Runtime runtime;
  ModelInfo info;
  model::ModelSpec spec;
  sched::Placement placement;  // in the default numerics; fixes the layouts of the matrices
  sched::WeightStore weights;
  sched::WeightSums sums;  // of the weights as they were loaded
  std::optional<Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat;
  std::exception_ptr chat_failure;  // why there is no chat template, if there should be one
  std::unique_ptr<session::Engine> engine;

  explicit Impl(const Runtime& r) : runtime(r) {}
};

io::OpenOptions open_options(const ModelOptions& options);
// What an engine over the model's weights is made of.
session::EngineParts engine_parts(const Model::Impl& impl);
// Throws argument, naming the field.
void check(const ComputeOptions& compute);
inline Numerics numerics_of(const ComputeOptions& c) { return {c.exact, c.relaxed}; }
// Tokens that a session of these options can hold.
inline std::int64_t context_of(const Graph& graph, const ComputeOptions& c) {
  return c.context > 0 ? c.context : graph.context_length;
}

}  // namespace dsv31::inline v1
