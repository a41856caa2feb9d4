// A graph comes from a checkpoint that a stranger may have made. Backends index memory by what it says, so every id and every
// shape is compared with its neighbours before the graph is used; a wrong one is mismatch, naming op and field.
#include <fmt/format.h>

#include <algorithm>

#include "dsv31/error.h"
#include "dsv31/quant.h"
#include "lib/graph/fields.h"
#include "lib/graph/graph.h"

namespace dsv31::inline v1::graph {
namespace {

// No dimension of a model reaches this, and three of them times a block's bytes fit in 63 bits only below it (checked by the
// product).
constexpr std::int64_t kMaxDim = std::int64_t{1} << 31;

bool in(std::int32_t id, std::size_t size) { return id >= 0 && static_cast<std::size_t>(id) < size; }

enum class State : std::uint8_t { unwritten, written, destroyed };

struct Check {
  const Graph& graph;
  std::vector<State> state;  // by ValueId
  std::vector<ValueId> pending_writes, pending_destroyed;
  std::size_t index = 0;
  const char* name = "";

  [[noreturn]] void fail(const char* field, const std::string& text) const {
    throw Error(Code::mismatch, "graph", fmt::format("op {} {}.{}: {}", index, name, field, text));
  }
  void expect(const char* field, std::int64_t got, std::int64_t expected) const {
    if (got != expected) fail(field, fmt::format("got width {}, expected {}", got, expected));
  }
  void require(const char* field, bool condition, const char* expected) const {
    if (!condition) fail(field, fmt::format("expected {}", expected));
  }

  void value(const char* field, ValueId id, std::int64_t expected_width, bool logits) const {
    if (!in(id, graph.values.size())) fail(field, fmt::format("got value {}, expected one of {}", id, graph.values.size()));
    const ValueDesc& desc = graph.values[static_cast<std::size_t>(id)];
    if (desc.logits != logits)
      fail(field,
           logits ? "got a value with a row a token, expected a row a logit" : "got a value of logits, expected a row a token");
    expect(field, desc.width, expected_width);
  }
  void read(const char* field, ValueId id, std::int64_t expected) {
    value(field, id, expected, false);
    const State s = state[static_cast<std::size_t>(id)];
    if (s == State::unwritten) fail(field, fmt::format("value {} is read before it is written", id));
    if (s == State::destroyed) fail(field, fmt::format("value {} is read after an op that overwrites it", id));
  }
  void maybe_read(const char* field, ValueId id, std::int64_t expected) {
    if (id != kNone) read(field, id, expected);
  }
  void destroy(const char* field, ValueId id, std::int64_t expected) {
    read(field, id, expected);
    pending_destroyed.push_back(id);
  }
  // Writes take effect after the op, so that an op that reads its own output is found.
  void write(const char* field, ValueId id, std::int64_t expected) {
    value(field, id, expected, false);
    once(field, id);
  }
  void write_logits(const char* field, ValueId id, std::int64_t expected) {
    value(field, id, expected, true);
    once(field, id);
  }
  void once(const char* field, ValueId id) {
    for (ValueId other : pending_writes)
      if (other == id) fail(field, fmt::format("value {} is written twice by one op", id));
    pending_writes.push_back(id);
  }
  void change(const char* field, ValueId id, std::int64_t expected) {
    read(field, id, expected);
    once(field, id);
  }
  void matrix(const char* field, MatrixId id, std::int64_t count, std::int64_t rows, std::int64_t cols) const {
    if (!in(id, graph.matrices.size())) fail(field, fmt::format("got matrix {}, expected one of {}", id, graph.matrices.size()));
    const MatrixDesc& m = graph.matrices[static_cast<std::size_t>(id)];
    if (m.count != count || m.rows != rows || m.cols != cols)
      fail(field, fmt::format("got ({}, {}, {}), expected ({}, {}, {})", m.count, m.rows, m.cols, count, rows, cols));
  }
  void maybe_matrix(const char* field, MatrixId id, std::int64_t count, std::int64_t rows, std::int64_t cols) const {
    if (id != kNone) matrix(field, id, count, rows, cols);
  }
  void maybe_vector(const char* field, VectorId id, std::int64_t expected) const {
    if (id != kNone) vector(field, id, expected);
  }
  void vector(const char* field, VectorId id, std::int64_t expected) const {
    if (!in(id, graph.vector_widths.size()))
      fail(field, fmt::format("got vector {}, expected one of {}", id, graph.vector_widths.size()));
    expect(field, graph.vector_widths[static_cast<std::size_t>(id)], expected);
  }
  const CacheDesc& cache(const char* field, std::int32_t layer) const {
    if (!in(layer, graph.caches.size())) fail(field, fmt::format("got layer {}, expected one of {}", layer, graph.caches.size()));
    return graph.caches[static_cast<std::size_t>(layer)];
  }
  void head_cache(const char* field, std::int32_t layer, std::int64_t heads, std::int64_t head_dim) const {
    const CacheDesc& c = cache(field, layer);
    if (c.latent != 0 || c.num_key_value_heads != heads || c.head_dim != head_dim)
      fail(field, fmt::format("got a cache of {} heads of {}, latent {}, expected {} heads of {}", c.num_key_value_heads,
                              c.head_dim, c.latent, heads, head_dim));
  }
  void latent_cache(const char* field, std::int32_t layer, std::int64_t latent) const {
    const CacheDesc& c = cache(field, layer);
    if (c.latent != latent) fail(field, fmt::format("got a cache of latent {}, expected {}", c.latent, latent));
  }
  void indexer_cache(const char* field, std::int32_t layer, std::int64_t width) const {
    const CacheDesc& c = cache(field, layer);
    if (c.indexer != width) fail(field, fmt::format("got a cache of indexer {}, expected {}", c.indexer, width));
  }
  void window(const char* field, std::int32_t layer, std::int64_t window) const {
    const CacheDesc& c = cache(field, layer);
    if (c.window != window) fail(field, fmt::format("got {}, expected the cache's window {}", window, c.window));
  }
  std::int64_t width(ValueId id) const {
    return in(id, graph.values.size()) ? graph.values[static_cast<std::size_t>(id)].width : 0;
  }
  std::int64_t rows_of(MatrixId id) const {
    return in(id, graph.matrices.size()) ? graph.matrices[static_cast<std::size_t>(id)].rows : 0;
  }
  std::int64_t vocab_size() const { return graph.vocab_size; }
  std::int64_t hidden_size() const { return graph.hidden_size; }
};

[[noreturn]] void fail(const std::string& text) { throw Error(Code::mismatch, "graph", text); }

void check_tables(const Graph& graph) {
  for (std::size_t i = 0; i < graph.values.size(); ++i)
    if (graph.values[i].width <= 0 || graph.values[i].width > kMaxDim)
      fail(fmt::format("value {}: got width {}, expected 1 to {}", i, graph.values[i].width, kMaxDim));
  for (std::size_t i = 0; i < graph.vector_widths.size(); ++i)
    if (graph.vector_widths[i] <= 0 || graph.vector_widths[i] > kMaxDim)
      fail(fmt::format("vector {}: got width {}, expected 1 to {}", i, graph.vector_widths[i], kMaxDim));
  for (std::size_t i = 0; i < graph.matrices.size(); ++i) {
    const MatrixDesc& m = graph.matrices[i];
    const FormatInfo& info = format(m.type);
    std::int64_t elements = 0;
    if (m.count <= 0 || m.rows <= 0 || m.cols <= 0 || m.count > kMaxDim || m.rows > kMaxDim || m.cols > kMaxDim ||
        __builtin_mul_overflow(m.count, m.rows, &elements) || __builtin_mul_overflow(elements, m.cols, &elements))
      fail(fmt::format("matrix {}: got ({}, {}, {}), expected dimensions of 1 to {}", i, m.count, m.rows, m.cols, kMaxDim));
    if (!info.weight) fail(fmt::format("matrix {}: got type {}, expected a weight format", i, info.name));
    if (m.cols % info.block != 0)
      fail(fmt::format("matrix {}: got {} columns, expected a multiple of {} for {}", i, m.cols, info.block, info.name));
  }
  for (std::size_t i = 0; i < graph.caches.size(); ++i) {
    const CacheDesc& c = graph.caches[i];
    const bool latent = c.latent > 0 && c.latent <= kMaxDim && c.num_key_value_heads == 0 && c.head_dim == 0 && c.indexer >= 0 &&
                        c.indexer <= kMaxDim;
    const bool heads = c.latent == 0 && c.indexer == 0 && c.num_key_value_heads > 0 && c.num_key_value_heads <= kMaxDim &&
                       c.head_dim > 0 && c.head_dim <= kMaxDim;
    if ((!latent && !heads) || c.window < 0) fail(fmt::format("cache {}: expected heads and head_dim, or latent", i));
  }
}

}  // namespace

void validate(const Graph& graph) {
  if (graph.vocab_size <= 0 || graph.hidden_size <= 0 || graph.context_length <= 0)
    fail("expected vocab_size, hidden_size and context_length > 0");
  check_tables(graph);
  Check check{graph, std::vector<State>(graph.values.size(), State::unwritten), {}, {}};
  std::vector<State> trunk;  // as its last op leaves it
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (static_cast<std::int64_t>(i) == graph.draft_begin) {  // only its input comes from before
      trunk = check.state;
      std::fill(check.state.begin(), check.state.end(), State::unwritten);
      if (!in(graph.draft_state, graph.values.size())) fail("draft_state: expected a value where there is a draft layer");
      check.state[static_cast<std::size_t>(graph.draft_state)] = State::written;
    }
    check.index = i;
    check.name = op_name(graph.ops[i]);
    std::visit([&](const auto& op) { each_field(op, check); }, graph.ops[i]);
    for (ValueId id : check.pending_destroyed) check.state[static_cast<std::size_t>(id)] = State::destroyed;
    for (ValueId id : check.pending_writes) check.state[static_cast<std::size_t>(id)] = State::written;
    check.pending_destroyed.clear();
    check.pending_writes.clear();
  }
  const auto written = [&](ValueId id, bool logits, std::int64_t width) {
    return in(id, graph.values.size()) && check.state[static_cast<std::size_t>(id)] == State::written &&
           graph.values[static_cast<std::size_t>(id)].logits == logits &&
           graph.values[static_cast<std::size_t>(id)].width == width;
  };
  if (graph.draft_begin != kNone) {
    if (graph.draft_begin <= 0 || graph.trunk_end() >= graph.ops.size()) fail("draft_begin: expected an op after the trunk's");
    if (!written(graph.draft_state, false, graph.hidden_size) || !written(graph.draft_next, false, graph.hidden_size) ||
        !written(graph.draft_logits, true, graph.vocab_size))
      fail("draft layer: expected a state in, a state out and logits");
    check.state = trunk;
    if (!written(graph.state, false, graph.hidden_size)) fail("state: expected a written value (n, hidden_size)");
  }
  if (!written(graph.hidden, false, graph.hidden_size)) fail("hidden: expected a written value (n, hidden_size)");
  if (!written(graph.logits, true, graph.vocab_size)) fail("logits: expected a written value (n_logits, vocab_size)");
}

}  // namespace dsv31::inline v1::graph
