// A model: weights, tokenizer and chat template, opened once, immutable from then on and shared by any number of sessions and
// threads.
//
// Model is a handle; the weights live until the last handle and the last session are gone. Opening reads every byte it needs and
// closes its files; only a packed file stays open and mapped as long as its model. All members may be called from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsv31/chat.h"
#include "dsv31/error.h"
#include "dsv31/export.h"
#include "dsv31/runtime.h"
#include "dsv31/self_check.h"
#include "dsv31/tokenizer.h"

namespace dsv31::inline v1 {

struct ModelOptions {
  Progress progress{};                  // read_metadata, then read_weights
  const CancelToken* cancel = nullptr;  // read while loading; cancelled leaves nothing behind
  // Load the layer that drafts (multi-token prediction), where the files have one: GenerateOptions::draft can use it then, and
  // every session keeps its cache, which costs a layer more in memory and time.
  bool mtp = false;
  // A packed file's weights are used where they stand in a mapping of the file: they cost page cache and no process memory,
  // and are outside the memory budget. The file must not be cut short while the model lives (SIGBUS). false: read into memory.
  bool map = true;
  bool count_experts = false;  // count what the routers choose, for Model::expert_load()
};

// How a session computes. The weights are the same for all of them.
struct ComputeOptions {
  bool exact = false;        // float32 activations, cache and accumulators, weights at their exact values
  bool relaxed = false;      // allow results that depend on the shape of a step within rounding, where that is faster
  std::int64_t chunk = 512;  // tokens of a prompt computed in one step, 1 .. 4096
  std::int64_t context = 0;  // tokens a session can hold; 0: the model's context length
};

struct TensorSummary {
  std::string name, type;
  std::vector<std::int64_t> shape;  // most significant first
  std::uint64_t bytes = 0;
};

struct ModelInfo {
  std::string architecture;  // "llama", "deepseek_v3", ...
  std::string name;
  std::int64_t num_hidden_layers = 0, hidden_size = 0, num_attention_heads = 0, num_key_value_heads = 0, vocab_size = 0;
  std::int64_t context_length = 0;
  std::int64_t n_routed_experts = 0, num_experts_per_tok = 0;
  std::uint64_t parameters = 0;
  std::uint64_t weight_bytes = 0;           // in the files
  std::uint64_t packed_bytes = 0;           // in memory, or mapped
  std::uint64_t active_bytes = 0;           // of the weights that one token touches, as in the files
  std::uint64_t cache_bytes_per_token = 0;  // in f16
  std::vector<TensorSummary> tensors;       // used by the model
  std::vector<std::string> extra_tensors;   // in the files, not used
  std::vector<std::string> warnings;
  // Of a packed file: XXH64 of the files it was made from, one after the other, as 16 hexadecimal digits. Else empty.
  std::string source_hash;
};

// One op of the execution plan.
struct PlanRow {
  std::string op, backend, kernel;
  std::int32_t layer = -1;
  std::uint64_t bytes = 0;  // of packed weights
};

// How the tokens of a layer were spread over its experts.
struct ExpertLoad {
  std::int32_t layer = 0;
  std::vector<std::uint64_t> tokens;  // (n_routed_experts): that chose the expert

  // The busiest expert's tokens over the mean: 1 is even, n_routed_experts / num_experts_per_tok the worst; 0 before any token.
  double imbalance() const noexcept {
    std::uint64_t most = 0, sum = 0;
    for (const std::uint64_t n : tokens) most = n > most ? n : most, sum += n;
    return sum == 0 ? 0 : static_cast<double>(most) * static_cast<double>(tokens.size()) / static_cast<double>(sum);
  }
};

// Bytes a model and one session take, known before anything is allocated.
struct MemoryPlan {
  std::uint64_t weights = 0;  // packed
  std::uint64_t cache = 0;    // of one session with a full context
  std::uint64_t scratch = 0;  // activations and kernels' buffers, once a model
  std::uint64_t total = 0;
  std::uint64_t mapped = 0;  // weights of a packed file that are used in place, in none of the numbers above
};

class DSV31_API Model {
 public:
  // A packed file, a GGUF file (the first of a split set serves), a Hugging Face folder, or a .safetensors file beside its
  // config.json.
  // Throws not_found, io, format, unsupported, mismatch, limit, no_memory, cancelled.
  static Model open(const Runtime& runtime, const std::string& path, const ModelOptions& options = {});
  // One packed or GGUF file from the host's own storage.
  static Model open(const Runtime& runtime, std::shared_ptr<const Reader> gguf, const ModelOptions& options = {});
  // A folder of the host; entry is a GGUF in it, or empty for a Hugging Face folder.
  static Model open(const Runtime& runtime, std::shared_ptr<const Folder> folder, const std::string& entry,
                    const ModelOptions& options = {});

  // What open and a session with these options would take, from the headers alone.
  static MemoryPlan plan(const Runtime& runtime, const std::string& path, const ComputeOptions& compute = {},
                         const ModelOptions& options = {});

  // Writes one packed file, whole or not at all: config, tokenizer, chat template, and the weights in the layout that every
  // instruction set reads, so that opening it maps them and packs nothing. Holds one matrix at a time. `path` as for open, but no
  // packed file (argument). Throws what open throws, and io. docs/packed.md describes the file.
  static void pack(const Runtime& runtime, const std::string& path, const std::string& packed_path,
                   const ModelOptions& options = {});
  // Reads a packed file from end to end and compares all checksums; open compares those of the tables alone. Throws format naming
  // the first matrix that differs, argument for any other file, and what open throws.
  static void verify_file(const std::string& packed_path, const ModelOptions& options = {});
  static void verify_file(std::shared_ptr<const Reader> packed, const ModelOptions& options = {});

  const ModelInfo& info() const noexcept;
  MemoryPlan memory(const ComputeOptions& compute = {}) const;
  std::vector<PlanRow> execution_plan(const ComputeOptions& compute = {}) const;

  // Computes a short prompt with this model on this machine and compares: every kernel with the plain reference on the model's
  // own weights, chunks, threads, batches and cached prefixes bit for bit, the forms of attention with each other, and the
  // weights in memory with those that were loaded. Takes seconds, and memory for a session and a few matrices. Throws argument,
  // cancelled, no_memory; what is wrong with the model or machine stands in the report.
  SelfCheckReport self_check(const SelfCheckOptions& options = {}) const;

  // Of every token computed since the model was opened, by all sessions, rejected drafts included; by layer, the draft layer
  // last. Routing never depends on it. Throws argument for a model opened without count_experts; empty for one without experts.
  std::vector<ExpertLoad> expert_load() const;

  bool has_tokenizer() const noexcept;
  // Throws not_found where the files hold no vocabulary.
  const Tokenizer& tokenizer() const;
  bool has_chat_template() const noexcept;
  // Throws not_found, or what parsing the template threw: a broken template does not keep a model from opening.
  const ChatTemplate& chat_template() const;

  const Runtime& runtime() const noexcept;

  struct Impl;
  const std::shared_ptr<Impl>& impl() const noexcept { return impl_; }

 private:
  explicit Model(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace dsv31::inline v1
