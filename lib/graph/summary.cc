// A graph for the eye: one line an op with the values it reads and writes and the matrices it multiplies by.
#include <fmt/format.h>

#include <iterator>

#include "dsv31/quant.h"
#include "lib/graph/graph.h"

namespace dsv31::inline v1::graph {

std::string summary(const Graph& graph) {
  std::string text;
  auto out = std::back_inserter(text);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const OpUse use = uses(graph.ops[i]);
    fmt::format_to(out, "{} {}", i, op_name(graph.ops[i]));
    for (ValueId id : use.reads) fmt::format_to(out, " %{}({})", id, graph.values[static_cast<std::size_t>(id)].width);
    fmt::format_to(out, " ->");
    for (ValueId id : use.writes) fmt::format_to(out, " %{}({})", id, graph.values[static_cast<std::size_t>(id)].width);
    for (MatrixId id : use.matrices) {
      const MatrixDesc& m = graph.matrices[static_cast<std::size_t>(id)];
      fmt::format_to(out, " {} {}", m.name, format(m.type).name);
      if (m.count != 1) fmt::format_to(out, "[{}]", m.count);
      fmt::format_to(out, "({}, {})", m.rows, m.cols);
    }
    text += '\n';
  }
  return text;
}

}  // namespace dsv31::inline v1::graph
