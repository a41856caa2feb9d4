// One op with everything it needs to run: weights, inputs, a step of sequences, and a cache with a past. The tests of all
// backends are made of these.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dsv31/backend.h"

namespace conformance {

using namespace dsv31;

// Uniform and normal numbers that are the same on every machine (xorshift64*; the standard's distributions are not).
class Random {
 public:
  explicit Random(std::string_view seed);
  std::uint64_t bits();
  double uniform();  // [0, 1)
  double normal();   // mean 0, deviation 1
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(n)); }

 private:
  std::uint64_t state_;
};

struct Past {
  std::int64_t position = 0, rows = 0;  // keys before `position` are in the cache, `rows` rows follow
  AttentionWindow window{};

  std::string name() const;  // "70+3", "70+3 of 20 and 4"
};

struct Value {
  std::int64_t width = 0;
  std::vector<float> data{};  // (n, width) before the op; empty: an output, which starts as garbage
  bool written = false;       // the op may change it
  bool logits = false;        // a row for each wanted row
};

struct OpCase {
  std::string name;
  Graph graph;                                  // its only op is ops[0]
  std::vector<std::vector<std::byte>> weights;  // by MatrixId: (count, rows, cols) in the source's blocks
  std::vector<std::vector<float>> scales;       // by MatrixId: block scales of F8_E4M3, or empty
  std::vector<std::vector<float>> vectors;      // by VectorId
  std::vector<Value> values;                    // by ValueId
  std::vector<ValueId> outputs;                 // whose results are compared
  ValueId residual = kNone;                     // what outputs[0] adds to, if anything
  std::vector<Past> sequences;
  std::vector<std::int32_t> tokens, logit_rows;
  std::int32_t layer = -1;               // whose cache has a past; -1: no cache
  bool rows_cached = false;              // the keys of the step's own rows are in the cache too
  double key_scale = 1;                  // deviation of what is in the cache, where it is random
  std::vector<std::vector<float>> past;  // by sequence: (positions, [K | V] or latent); empty: random
  double roundings = 0;                  // float32 roundings along the longest chain from an input to an output

  std::int64_t rows() const;
  const Op& op() const { return graph.ops[0]; }
};

class CaseBuilder {
 public:
  CaseBuilder(std::string name, std::vector<Past> sequences);

  Random& random() { return random_; }
  std::int64_t rows() const { return case_.rows(); }
  ValueId input(std::int64_t width, double scale = 1);            // random
  ValueId input_of(std::int64_t width, std::vector<float> data);  // (n, width)
  ValueId output(std::int64_t width, bool logits = false);
  // The op may change it; its result is compared only if `compared`.
  ValueId inout(ValueId input, bool compared = true);
  MatrixId matrix(DType type, std::int64_t count, std::int64_t rows, std::int64_t cols, bool block_scales = false);
  MatrixId matrix_of(std::int64_t rows, std::int64_t cols, const std::vector<float>& data);  // float32, (rows, cols)
  VectorId vector(std::int64_t width, double centre = 0, double scale = 0.3);
  VectorId vector_of(std::vector<float> data);
  Norm norm(std::int64_t width, float eps = 0.01f) { return {vector(width, 1), eps}; }
  // The cache of `layer`, other layers before it being of another shape.
  void cache(std::int32_t layer, CacheDesc desc, bool rows_cached, double key_scale = 1);
  void past(std::vector<std::vector<float>> past) { case_.past = std::move(past); }
  void logit_rows(std::vector<std::int32_t> rows) { case_.logit_rows = std::move(rows); }
  void tokens(std::vector<std::int32_t> tokens) { case_.tokens = std::move(tokens); }
  void residual(ValueId id) { case_.residual = id; }

  OpCase finish(Op op, double roundings);

 private:
  OpCase case_;
  Random random_;
};

// The weight formats that quant.h lists.
std::vector<DType> weight_types();
std::string type_name(DType type);
// At most `cols`, a multiple of the type's block: what a case that wants an odd width takes with this type.
std::int64_t fit(DType type, std::int64_t cols);

}  // namespace conformance
