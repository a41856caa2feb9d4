// The one table of architectures: what the containers call each, and the function that builds its graph.
// A new architecture is a row here, a file beside this one, and what its config needs in config_hf.cc and config_gguf.cc.
#pragma once

#include <span>
#include <string_view>

#include "lib/io/json.h"

namespace dsv31::inline v1::model {

class Assembly;

struct Architecture {
  std::string_view model_type;  // Hugging Face config.json
  std::string_view class_name;  // Hugging Face architectures[0]
  std::string_view gguf;        // general.architecture; also the prefix of its keys
  void (*build)(Assembly& model);
};

std::span<const Architecture> architectures() noexcept;
// Throw unsupported, naming it, where it is not in the table.
const Architecture& architecture_by_gguf(std::string_view name);
// By model_type, or by architectures[0] where there is no model_type.
const Architecture& architecture_by_hf(const io::Json& config);

void build_llama(Assembly& model);
void build_qwen2(Assembly& model);
void build_qwen3(Assembly& model);
void build_qwen3moe(Assembly& model);
void build_gemma3(Assembly& model);
void build_deepseek(Assembly& model);

}  // namespace dsv31::inline v1::model
