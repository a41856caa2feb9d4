// Tensors under one prefix, each with the name it has in the container at hand.
#include <fmt/format.h>

#include "dsv31/quant.h"
#include "lib/model/assembly.h"

namespace dsv31::inline v1::model {

std::string Scope::full(Name name, std::string_view suffix) const {
  return prefix_ + std::string(model_.gguf() ? name.gguf : name.hf) + std::string(suffix);
}

bool Scope::has(Name name) const { return model_.find(full(name, ".weight")) != nullptr; }

bool Scope::holds(Name name) const { return model_.find(full(name, "")) != nullptr; }

MatrixId Scope::slice(Name name, Rows rows, std::int64_t cols) {
  const io::TensorInfo& t = model_.tensor(full(name, ".weight"), {Shape(rows.of, cols)});
  return model_.bind({{&t, rows.first, rows.rows}},
                     {.rows = rows.rows, .cols = cols, .decode = t.type == DType::f8_e4m3 && rows.first % 128 != 0});
}

MatrixId Scope::float_matrix(Name name, std::int64_t rows, std::int64_t cols) {
  const io::TensorInfo& t = model_.tensor(full(name, ".weight"), {Shape(rows, cols)});
  return model_.bind({{&t, 0, rows}}, {.rows = rows, .cols = cols, .decode = t.type != DType::f16 && t.type != DType::bf16});
}

MatrixId Scope::stack(Name name, std::int64_t count, std::int64_t rows, std::int64_t cols) {
  const io::TensorInfo& t = model_.tensor(full(name, ".weight"), {Shape(count, rows, cols), Shape(count * rows, cols)});
  return model_.bind({{&t, 0, count * rows}}, {.count = count, .rows = rows, .cols = cols});
}

MatrixId Scope::heads(Name name, std::int64_t count, std::int64_t stride, std::int64_t first, std::int64_t rows,
                      std::int64_t cols, bool transpose) {
  const io::TensorInfo& t = model_.tensor(full(name, ".weight"), {Shape(count * stride, cols)});
  const bool whole = t.type == DType::f32 || t.type == DType::f16 || t.type == DType::bf16;
  // 128 x 128 scale blocks stay blocks, transposed or not, where each head starts and ends at a border of blocks.
  const bool scaled = t.type == DType::f8_e4m3 && stride % 128 == 0 && first % 128 == 0 && rows % 128 == 0;
  const bool keeps = whole || scaled || (t.type != DType::f8_e4m3 && !transpose);
  std::vector<Assembly::Run> runs;
  for (std::int64_t h = 0; h < count; ++h) runs.push_back({&t, h * stride + first, rows});
  return model_.bind(runs, {.count = count, .rows = rows, .cols = cols, .transpose = transpose, .decode = !keeps});
}

Norm Scope::norm(Name name, std::int64_t width, double eps, float plus) {
  return {model_.bind_vector(full(name, ".weight"), 0, width, width, plus), static_cast<float>(eps)};
}

VectorId Scope::bias(Name name, std::int64_t width, bool wanted) {
  const std::string tensor = full(name, ".bias");
  if (model_.gguf() ? model_.find(tensor) == nullptr : !wanted) return kNone;
  return model_.bind_vector(tensor, 0, width, width, 0);
}

VectorId Scope::vector(Name name, std::int64_t width) { return model_.bind_vector(full(name, ""), 0, width, width, 0); }

Linear::Part Scope::part(Name name, std::int64_t rows, std::int64_t cols, bool bias_wanted, ValueId out) {
  return {.weight = matrix(name, rows, cols), .bias = bias(name, rows, bias_wanted), .out = out};
}

std::vector<Linear::Part> Scope::qkv(bool bias_wanted, ValueId q, ValueId k, ValueId v) {
  const Config& c = model_.config();
  const std::int64_t q_rows = c.q_width(), kv_rows = c.kv_width(), cols = c.hidden_size;
  const Name fused{"attn_qkv", "self_attn.qkv_proj"};
  if (!model_.gguf() || !has(fused))
    return {part({"attn_q", "self_attn.q_proj"}, q_rows, cols, bias_wanted, q),
            part({"attn_k", "self_attn.k_proj"}, kv_rows, cols, bias_wanted, k),
            part({"attn_v", "self_attn.v_proj"}, kv_rows, cols, bias_wanted, v)};
  const std::int64_t of = q_rows + 2 * kv_rows;
  const std::string bias_name = full(fused, ".bias");
  const bool biased = model_.find(bias_name) != nullptr;
  const auto run = [&](std::int64_t first, std::int64_t rows, ValueId out) -> Linear::Part {
    return {.weight = slice(fused, {first, rows, of}, cols),
            .bias = biased ? model_.bind_vector(bias_name, first, rows, of, 0) : kNone,
            .out = out};
  };
  return {run(0, q_rows, q), run(q_rows, kv_rows, k), run(q_rows + kv_rows, kv_rows, v)};
}

Scope::ExpertMatrices Scope::experts(std::int64_t count, std::int64_t width, std::int64_t hidden) {
  const auto run = [&](const io::TensorInfo& t, std::int64_t stride, std::int64_t first, std::int64_t rows, std::int64_t cols) {
    std::vector<Assembly::Run> runs;
    for (std::int64_t e = 0; e < count; ++e) runs.push_back({&t, e * stride + first, rows});
    return model_.bind(runs, {.count = count, .rows = rows, .cols = cols});
  };
  // gate and up of an expert one below the other, all experts in one tensor
  const std::string fused = full({"ffn_gate_up_exps.weight", "mlp.experts.gate_up_proj"}, "");
  if (model_.find(fused) != nullptr) {
    const io::TensorInfo& t = model_.tensor(fused, {Shape(count, 2 * width, hidden)});
    const io::TensorInfo& down =
        model_.tensor(full({"ffn_down_exps.weight", "mlp.experts.down_proj"}, ""), {Shape(count, hidden, width)});
    return {run(t, 2 * width, 0, width, hidden), run(t, 2 * width, width, width, hidden), run(down, hidden, 0, hidden, width)};
  }
  if (model_.gguf())
    return {stack({"ffn_gate_exps", ""}, count, width, hidden), stack({"ffn_up_exps", ""}, count, width, hidden),
            stack({"ffn_down_exps", ""}, count, hidden, width)};
  const auto each = [&](std::string_view projection, std::int64_t rows, std::int64_t cols) {
    std::vector<Assembly::Run> runs;
    for (std::int64_t e = 0; e < count; ++e) {
      const std::string name = fmt::format("{}mlp.experts.{}.{}.weight", prefix_, e, projection);
      runs.push_back({&model_.tensor(name, {Shape(rows, cols)}), 0, rows});
    }
    return model_.bind(runs, {.count = count, .rows = rows, .cols = cols});
  };
  return {each("gate_proj", width, hidden), each("up_proj", width, hidden), each("down_proj", hidden, width)};
}

}  // namespace dsv31::inline v1::model
