// Config, then the architecture's own file, then what is left over.
#include "lib/model/spec.h"

#include <fmt/format.h>

#include "dsv31/error.h"
#include "lib/model/architectures.h"
#include "lib/model/assembly.h"

namespace dsv31::inline v1::model {

ModelSpec build_model(const io::Checkpoint& checkpoint, const BuildOptions& options) {
  const bool gguf = checkpoint.kind == io::Checkpoint::Kind::gguf;
  ModelSpec spec;
  spec.config = gguf ? config_from_gguf(checkpoint.metadata) : config_from_hf(checkpoint.config);
  const Architecture& architecture = gguf ? architecture_by_gguf(spec.config.model_type) : architecture_by_hf(checkpoint.config);
  if (spec.config.vocab_size == 0) {
    const io::TensorInfo* embedding = checkpoint.find("token_embd.weight");
    if (embedding != nullptr && embedding->shape.rank == 2 && embedding->shape[0] <= kMaxVocab)
      spec.config.vocab_size = embedding->shape[0];
    else
      throw Error(Code::mismatch, "model",
                  fmt::format("\"token_embd.weight\": got none of up to {} rows, expected (vocab_size, {})", kMaxVocab,
                              spec.config.hidden_size));
  }
  spec.warnings = spec.config.warnings;
  Assembly assembly(checkpoint, spec, options);
  architecture.build(assembly);
  return spec;
}

}  // namespace dsv31::inline v1::model
