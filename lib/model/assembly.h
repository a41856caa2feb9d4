// What the file of an architecture is written with: ops go in, and the tensors that they name are found in the checkpoint,
// compared with the shape that the config gives them, and bound, in one call a tensor.
//
// A tensor has one name in GGUF and another in Hugging Face checkpoints; the call gives both, the prefix of the layer and the
// suffix (".weight", ".bias") are added here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/graph/graph.h"
#include "lib/model/spec.h"

namespace dsv31::inline v1::model {

struct Name {
  std::string_view gguf, hf;
};

// A run of rows of a tensor that holds several matrices one below the other: rows [first, first + rows) of `of`.
struct Rows {
  std::int64_t first = 0, rows = 0, of = 0;
};

class Assembly;

// The tensors under one prefix: "blk.3." or "model.layers.3.", or those of the whole model.
class Scope {
 public:
  bool has(Name name) const;    // its weight
  bool holds(Name name) const;  // by its full name under the prefix, no suffix added
  // (rows, cols)
  MatrixId matrix(Name name, std::int64_t rows, std::int64_t cols) { return slice(name, {0, rows, rows}, cols); }
  // (rows.rows, cols) out of a tensor (rows.of, cols)
  MatrixId slice(Name name, Rows rows, std::int64_t cols);
  // (rows, cols) in a float type: decoded to float32 where the file has it quantised. For routers.
  MatrixId float_matrix(Name name, std::int64_t rows, std::int64_t cols);
  // (count, rows, cols) in one tensor of that shape or of (count * rows, cols)
  MatrixId stack(Name name, std::int64_t count, std::int64_t rows, std::int64_t cols);
  // Matrix h is rows [h * stride + first, ... + rows) of a tensor (count * stride, cols), transposed to (cols, rows) if so
  // wished. Formats whose blocks do not survive that become float32.
  MatrixId heads(Name name, std::int64_t count, std::int64_t stride, std::int64_t first, std::int64_t rows, std::int64_t cols,
                 bool transpose);
  // weight (width); plus is added to every element.
  Norm norm(Name name, std::int64_t width, double eps, float plus = 0);
  // (width). GGUF: kNone where the file has none; Hugging Face: kNone unless the config wants it.
  VectorId bias(Name name, std::int64_t width, bool wanted);
  // By its full name under the prefix, no suffix added.
  VectorId vector(Name name, std::int64_t width);

  // A part of Linear that projects to a new value, or to `out`.
  Linear::Part part(Name name, std::int64_t rows, std::int64_t cols, bool bias_wanted, ValueId out);
  // q, k and v of ordinary attention; three tensors, or attn_qkv in GGUF.
  std::vector<Linear::Part> qkv(bool bias_wanted, ValueId q, ValueId k, ValueId v);

  // The routed experts of a layer: a tensor for each (Hugging Face) or a stack, gate and up in one tensor or two.
  struct ExpertMatrices {
    MatrixId gate = kNone, up = kNone;  // (count, width, hidden)
    MatrixId down = kNone;              // (count, hidden, width)
  };
  ExpertMatrices experts(std::int64_t count, std::int64_t width, std::int64_t hidden);

 private:
  friend class Assembly;
  Scope(Assembly& model, std::string prefix) : model_(model), prefix_(std::move(prefix)) {}
  std::string full(Name name, std::string_view suffix) const;

  Assembly& model_;
  std::string prefix_;
};

class Assembly {
 public:
  Assembly(const io::Checkpoint& checkpoint, ModelSpec& spec, const BuildOptions& options = {});

  const Config& config() const { return spec_.config; }
  bool gguf() const { return checkpoint_.kind == io::Checkpoint::Kind::gguf; }
  Scope top();
  Scope layer(std::int64_t i);

  ValueId value(std::int64_t width) { return builder_.value(width); }
  std::int32_t cache(const CacheDesc& desc) { return builder_.cache(desc); }
  void add(Op op) { builder_.add(std::move(op)); }

  // Values (n, hidden_size) that all layers add to. scale_by_sqrt: gemma's factor, in the precision of the stored weight.
  ValueId embed(bool scale_by_sqrt = false);
  // Values (n, dim). divide: rope_freqs.weight of llama3 in GGUF, where the file has it.
  ValueId angles(const RopeParameters& rope, std::int64_t dim, bool divide = false);
  // Final norm and logits; then the graph is finished, unless a draft layer follows. plus as in Scope::norm.
  void head(ValueId x, float plus = 0);
  // Whether the layer after the last one is to be built: the files have it, and it is wanted.
  bool drafts();
  // The value (n, hidden_size) that the draft layer starts from.
  ValueId begin_draft();
  // Its logits, by matrices of its own where it has them, and the end of the graph.
  void draft_head(Scope& block, ValueId x);
  MatrixId embedding() const { return embedding_; }

  // Binding, for Scope.
  struct Run {
    const io::TensorInfo* tensor = nullptr;
    std::int64_t first = 0, rows = 0;  // of the tensor seen as (all but the last dimension, last dimension)
  };
  struct Shaping {
    std::int64_t count = 1, rows = 0, cols = 0;  // as stored
    bool transpose = false, decode = false;
  };
  MatrixId bind(const std::vector<Run>& runs, const Shaping& shaping);
  VectorId bind_vector(const std::string& name, std::int64_t first, std::int64_t width, std::int64_t of, float plus);
  const io::TensorInfo& tensor(const std::string& name, const std::vector<Shape>& expected);
  const io::TensorInfo* find(const std::string& name) const { return checkpoint_.find(name); }
  std::string_view keep(const std::string& name);
  void finish(ValueId hidden, ValueId logits);

 private:
  void bind_scales(MatrixSource& source, const Run& run);
  std::vector<float> read_floats(const io::TensorInfo& tensor) const;

  const io::Checkpoint& checkpoint_;
  ModelSpec& spec_;
  graph::Builder builder_;
  std::string hf_prefix_;   // "model.", or what a multimodal model puts before it
  std::vector<bool> used_;  // by tensor
  BuildOptions options_;
  MatrixId embedding_ = kNone, head_ = kNone;
  ValueId hidden_ = kNone, logits_ = kNone, state_ = kNone;
};

}  // namespace dsv31::inline v1::model
