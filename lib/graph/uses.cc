// Which ids an op touches: the visitor of fields.h that forgets shapes.
#include "lib/graph/fields.h"
#include "lib/graph/graph.h"

namespace dsv31::inline v1::graph {
namespace {

struct Collect {
  OpUse use;

  static void put(std::vector<std::int32_t>& to, std::int32_t id) {
    if (id != kNone) to.push_back(id);
  }
  void read(const char*, ValueId id, std::int64_t) { put(use.reads, id); }
  void maybe_read(const char*, ValueId id, std::int64_t) { put(use.reads, id); }
  void destroy(const char*, ValueId id, std::int64_t) { put(use.reads, id); }
  void write(const char*, ValueId id, std::int64_t) { put(use.writes, id); }
  void write_logits(const char*, ValueId id, std::int64_t) { put(use.writes, id); }
  void change(const char*, ValueId id, std::int64_t) { put(use.reads, id), put(use.writes, id); }
  void matrix(const char*, MatrixId id, std::int64_t, std::int64_t, std::int64_t) { put(use.matrices, id); }
  void maybe_matrix(const char*, MatrixId id, std::int64_t, std::int64_t, std::int64_t) { put(use.matrices, id); }
  void vector(const char*, VectorId id, std::int64_t) { put(use.vectors, id); }
  void maybe_vector(const char*, VectorId id, std::int64_t) { put(use.vectors, id); }
  void head_cache(const char*, std::int32_t, std::int64_t, std::int64_t) {}
  void latent_cache(const char*, std::int32_t, std::int64_t) {}
  void indexer_cache(const char*, std::int32_t, std::int64_t) {}
  void window(const char*, std::int32_t, std::int64_t) {}
  void require(const char*, bool, const char*) {}
  std::int64_t width(ValueId) const { return 0; }
  std::int64_t rows_of(MatrixId) const { return 0; }
  std::int64_t vocab_size() const { return 0; }
  std::int64_t hidden_size() const { return 0; }
};

}  // namespace

OpUse uses(const Op& op) {
  Collect collect;
  std::visit([&](const auto& fields) { each_field(fields, collect); }, op);
  return std::move(collect.use);
}

}  // namespace dsv31::inline v1::graph
