// Which backend runs which op: a pure function of the graph, of what each backend supports, and of how well it likes each op.
//
// Ops that share a matrix must agree on its packed layout (a tied embedding is looked up and multiplied in one form), so ops are
// grouped by the matrices they share, and a group takes the layout with the highest sum of affinities that all its ops can use.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dsv31/backend.h"

namespace dsv31::inline v1::sched {

using BackendList = std::vector<std::shared_ptr<const Backend>>;

struct Preference {
  std::string backend;  // wins wherever it supports the op; empty: none
  bool strict = false;  // and is refused nowhere: unsupported, naming the op, where it does not support one
};

struct Placement {
  std::vector<int> backend;              // by op, index into the list
  std::vector<std::string_view> layout;  // by matrix; of the backend that packs it
  std::vector<int> packer;               // by matrix: the backend that packs it, the first by op order
};

// Throws unsupported, naming the op and its layer, where no backend supports it. `fixed`, if not null, gives the layouts that the
// matrices already have; ops are then placed on backends that read them.
Placement place(const Graph& graph, const BackendList& backends, Numerics numerics, const Preference& preference = {},
                const std::vector<std::string_view>* fixed = nullptr);

// The cache layer an op belongs to, counted by the attention ops before it; -1 for those outside the layers.
std::vector<std::int32_t> layer_of_op(const Graph& graph);

}  // namespace dsv31::inline v1::sched
