#include "lib/sched/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "dsv31/error.h"
#include "lib/graph/graph.h"

namespace dsv31::inline v1::sched {
namespace {

constexpr int kNotSupported = std::numeric_limits<int>::min();
constexpr int kPreferred = 1 << 20;

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

// Ops that share a matrix, directly or through others, get the same root.
class Groups {
 public:
  explicit Groups(std::size_t ops) : parent_(ops) { std::iota(parent_.begin(), parent_.end(), std::size_t{0}); }
  std::size_t root(std::size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(std::size_t a, std::size_t b) { parent_[std::max(root(a), root(b))] = std::min(root(a), root(b)); }

 private:
  std::vector<std::size_t> parent_;
};

}  // namespace

std::vector<std::int32_t> layer_of_op(const Graph& graph) {
  std::vector<std::int32_t> out(graph.ops.size(), -1);
  // The ops before an attention op belong to its layer as far back as the previous layer's feed-forward network.
  std::int32_t layer = 0;
  std::size_t begin = 0;
  while (begin < graph.ops.size() &&
         (std::holds_alternative<Embed>(graph.ops[begin]) || std::holds_alternative<Angles>(graph.ops[begin])))
    ++begin;
  for (std::size_t i = begin; i < graph.ops.size(); ++i) {
    if (std::holds_alternative<Head>(graph.ops[i])) continue;
    out[i] = layer;
    if (std::holds_alternative<GatedFfn>(graph.ops[i]) || std::holds_alternative<Experts>(graph.ops[i])) ++layer;
  }
  return out;
}

Placement place(const Graph& graph, const BackendList& backends, Numerics numerics, const Preference& preference,
                const std::vector<std::string_view>* fixed) {
  const std::size_t n_ops = graph.ops.size();
  const std::vector<std::int32_t> layers = layer_of_op(graph);
  std::vector<std::vector<int>> score(n_ops, std::vector<int>(backends.size(), kNotSupported));
  Groups groups(n_ops);
  std::vector<std::int32_t> user(graph.matrices.size(), -1);
  std::vector<graph::OpUse> use(n_ops);

  bool known = preference.backend.empty();
  for (auto& b : backends) known = known || b->name() == preference.backend;
  if (!known)
    throw Error(Code::unsupported, "runtime.backend",
                fmt::format("got '{:.40}', expected a backend of this build", preference.backend));

  for (std::size_t i = 0; i < n_ops; ++i) {
    use[i] = graph::uses(graph.ops[i]);
    for (MatrixId m : use[i].matrices) {
      if (user[at(m)] < 0)
        user[at(m)] = static_cast<std::int32_t>(i);
      else
        groups.join(at(user[at(m)]), i);
    }
    for (std::size_t b = 0; b < backends.size(); ++b) {
      if (!backends[b]->supports(graph.ops[i], graph, numerics)) continue;
      score[i][b] =
          backends[b]->affinity(graph.ops[i], graph, numerics) + (backends[b]->name() == preference.backend ? kPreferred : 0);
      if (fixed != nullptr)
        for (MatrixId m : use[i].matrices)
          if ((*fixed)[at(m)] != backends[b]->layout()) score[i][b] = kNotSupported;
    }
    auto refuse = [&](std::string_view who) {
      throw Error(Code::unsupported, "placement",
                  fmt::format("got op '{}' of layer {}, expected {} to support it", op_name(graph.ops[i]), layers[i], who));
    };
    if (std::all_of(score[i].begin(), score[i].end(), [](int s) { return s == kNotSupported; })) refuse("a backend");
    if (preference.strict && !preference.backend.empty()) {
      for (std::size_t b = 0; b < backends.size(); ++b)
        if (backends[b]->name() == preference.backend && score[i][b] == kNotSupported) refuse(preference.backend);
    }
  }

  // The best backend of an op among those of one layout, or -1.
  auto best = [&](std::size_t op, std::string_view layout) {
    int found = -1;
    for (std::size_t b = 0; b < backends.size(); ++b) {
      if (score[op][b] == kNotSupported || (!layout.empty() && backends[b]->layout() != layout)) continue;
      if (found < 0 || score[op][b] > score[op][at(found)]) found = static_cast<int>(b);
    }
    return found;
  };

  Placement out;
  out.backend.assign(n_ops, -1);
  out.layout.resize(graph.matrices.size());
  out.packer.assign(graph.matrices.size(), 0);
  for (std::size_t root = 0; root < n_ops; ++root) {
    if (groups.root(root) != root) continue;
    std::vector<std::size_t> members;
    for (std::size_t i = root; i < n_ops; ++i)
      if (groups.root(i) == root) members.push_back(i);
    std::string_view layout;
    if (members.size() > 1) {
      long best_sum = std::numeric_limits<long>::min();
      for (auto& b : backends) {
        long sum = 0;
        bool all = true;
        for (std::size_t i : members) {
          int c = best(i, b->layout());
          all = all && c >= 0;
          if (all) sum += score[i][at(c)];
        }
        if (all && sum > best_sum) {
          best_sum = sum;
          layout = b->layout();
        }
      }
      if (layout.empty())
        throw Error(Code::unsupported, "placement",
                    fmt::format("got ops sharing the matrix of op '{}' of layer {}, expected one layout that all of them can use",
                                op_name(graph.ops[root]), layers[root]));
    }
    for (std::size_t i : members) out.backend[i] = best(i, layout);
  }
  for (std::size_t m = 0; m < graph.matrices.size(); ++m) {
    if (user[m] < 0) continue;
    out.packer[m] = out.backend[at(user[m])];
    out.layout[m] = backends[at(out.packer[m])]->layout();
  }
  return out;
}

}  // namespace dsv31::inline v1::sched
