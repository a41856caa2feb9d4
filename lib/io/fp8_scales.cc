#include <fmt/format.h>

#include "lib/io/hugging_face.h"

namespace dsv31::inline v1::io {

namespace {

constexpr std::int64_t kMaxBlock = 1 << 16;

struct Block {
  std::int64_t rows = 128, cols = 128;
};

Block scale_block(const Json& config) {
  const Json* quantization = config.find("quantization_config");
  if (quantization == nullptr || !quantization->is_object()) return {};
  const Json* size = quantization->find("weight_block_size");
  if (size == nullptr || size->is_null()) return {};
  const auto valid = [](const Json& v) { return v.is_int() && v.as_int() >= 1 && v.as_int() <= kMaxBlock; };
  if (!size->is_array() || size->as_array().size() != 2 || !valid(size->as_array()[0]) || !valid(size->as_array()[1]))
    throw Error(
        Code::format, "config.json",
        fmt::format("quantization_config.weight_block_size: got something else, expected two integers in [1, {}]", kMaxBlock));
  return {size->as_array()[0].as_int(), size->as_array()[1].as_int()};
}

}  // namespace

void check_fp8_scales(const Checkpoint& checkpoint) {
  constexpr std::string_view where = "safetensors", suffix = ".weight";
  const Block block = scale_block(checkpoint.config);
  for (const TensorInfo& t : checkpoint.tensors) {
    if (t.type != DType::f8_e4m3 || !t.name.ends_with(suffix)) continue;
    if (t.shape.rank != 2)
      throw Error(Code::mismatch, where,
                  fmt::format("{}: got {} dimensions of F8_E4M3, expected a matrix", quoted(t.name), t.shape.rank));
    const TensorInfo* scale = checkpoint.find(t.name + "_scale_inv");
    if (scale == nullptr)
      throw Error(Code::mismatch, where,
                  fmt::format("{}: got F8_E4M3 without {}_scale_inv, expected its scales", quoted(t.name), t.name.substr(0, 80)));
    if (scale->type != DType::f32 && scale->type != DType::f8_e8m0)
      throw Error(Code::mismatch, where, fmt::format("{}: got another dtype, expected F32 or F8_E8M0", quoted(scale->name)));
    const std::int64_t rows = t.shape[0] / block.rows + (t.shape[0] % block.rows != 0);
    const std::int64_t cols = t.shape[1] / block.cols + (t.shape[1] % block.cols != 0);
    if (scale->shape != Shape(rows, cols))
      throw Error(Code::mismatch, where,
                  fmt::format("{}: got ({}, {}) and rank {}, expected ({}, {}) scales for ({}, {})", quoted(scale->name),
                              scale->shape[0], scale->shape[1], scale->shape.rank, rows, cols, t.shape[0], t.shape[1]));
  }
}

}  // namespace dsv31::inline v1::io
