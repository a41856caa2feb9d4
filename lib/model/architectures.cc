#include "lib/model/architectures.h"

#include <fmt/format.h>

#include <array>

#include "dsv31/error.h"
#include "lib/io/bytes.h"

namespace dsv31::inline v1::model {
namespace {

constexpr std::array<Architecture, 9> kArchitectures = {{
    {"llama", "LlamaForCausalLM", "llama", build_llama},
    {"qwen2", "Qwen2ForCausalLM", "qwen2", build_qwen2},
    {"qwen3", "Qwen3ForCausalLM", "qwen3", build_qwen3},
    {"qwen3_moe", "Qwen3MoeForCausalLM", "qwen3moe", build_qwen3moe},
    {"gemma3_text", "Gemma3ForCausalLM", "gemma3", build_gemma3},
    {"gemma3", "Gemma3ForConditionalGeneration", "gemma3", build_gemma3},  // its text_config
    {"deepseek_v2", "DeepseekV2ForCausalLM", "deepseek2", build_deepseek},
    {"deepseek_v3", "DeepseekV3ForCausalLM", "deepseek2", build_deepseek},
    {"deepseek_v32", "DeepseekV32ForCausalLM", "deepseek32", build_deepseek},
}};

[[noreturn]] void unknown(std::string_view where, std::string_view key, std::string_view name) {
  std::string known;
  for (const Architecture& a : kArchitectures) {
    const std::string_view spelled = where == "gguf" ? a.gguf : a.model_type;
    if (!known.ends_with(spelled)) known += (known.empty() ? "" : ", ") + std::string(spelled);
  }
  throw Error(Code::unsupported, where, fmt::format("{}: got {}, expected one of {}", key, io::quoted(name), known));
}

}  // namespace

std::span<const Architecture> architectures() noexcept { return kArchitectures; }

const Architecture& architecture_by_gguf(std::string_view name) {
  for (const Architecture& a : kArchitectures)
    if (a.gguf == name) return a;
  unknown("gguf", "general.architecture", name);
}

const Architecture& architecture_by_hf(const io::Json& config) {
  const std::string model_type = config.string_or("model_type", "");
  for (const Architecture& a : kArchitectures)
    if (a.model_type == model_type) return a;
  if (!model_type.empty()) unknown("config.json", "model_type", model_type);
  const io::Json::Array& classes = config.get_array("architectures");
  const std::string_view name = !classes.empty() && classes[0].is_string() ? std::string_view(classes[0].as_string()) : "";
  for (const Architecture& a : kArchitectures)
    if (a.class_name == name) return a;
  unknown("config.json", "architectures", name);
}

}  // namespace dsv31::inline v1::model
