// Finding, checking and binding of tensors: the one place where the config's shapes meet those of the files.
#include "lib/model/assembly.h"

#include <fmt/format.h>

#include <cmath>

#include "dsv31/error.h"
#include "dsv31/quant.h"
#include "lib/io/bytes.h"
#include "lib/model/rope.h"

namespace dsv31::inline v1::model {
namespace {

constexpr std::int64_t kScaleBlock = 128;

std::int64_t blocks(std::int64_t n) { return (n + kScaleBlock - 1) / kScaleBlock; }

std::string shown(const Shape& shape) {
  std::string text = "(";
  for (int i = 0; i < shape.rank; ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", shape[i]);
  return text + ")";
}

[[noreturn]] void unfit(const std::string& name, const std::string& got, const std::string& expected) {
  throw Error(Code::mismatch, "model", fmt::format("{}: got {}, expected {}", io::quoted(name), got, expected));
}

bool is_float(DType type) { return type == DType::f32 || type == DType::f16 || type == DType::bf16; }

}  // namespace

Assembly::Assembly(const io::Checkpoint& checkpoint, ModelSpec& spec, const BuildOptions& options)
    : checkpoint_(checkpoint),
      spec_(spec),
      builder_(spec.config.vocab_size, spec.config.hidden_size, spec.config.max_position_embeddings),
      hf_prefix_("model."),
      used_(checkpoint.tensors.size(), false),
      options_(options) {
  for (std::string_view prefix : {"model.", "language_model.model.", "model.language_model.", ""})
    if (!gguf() && find(std::string(prefix) + "embed_tokens.weight") != nullptr) {
      hf_prefix_ = std::string(prefix);
      break;
    }
}

Scope Assembly::top() { return Scope(*this, gguf() ? "" : hf_prefix_); }
Scope Assembly::layer(std::int64_t i) {
  return Scope(*this, gguf() ? fmt::format("blk.{}.", i) : fmt::format("{}layers.{}.", hf_prefix_, i));
}

std::string_view Assembly::keep(const std::string& name) { return spec_.names.emplace_back(name); }

const io::TensorInfo& Assembly::tensor(const std::string& name, const std::vector<Shape>& expected) {
  const io::TensorInfo* t = find(name);
  if (t == nullptr) unfit(name, "no such tensor", shown(expected[0]));
  bool fits = false;
  for (const Shape& shape : expected) fits = fits || t->shape == shape;
  if (!fits) unfit(name, shown(t->shape), shown(expected[0]));
  used_[static_cast<std::size_t>(t - checkpoint_.tensors.data())] = true;
  return *t;
}

void Assembly::bind_scales(MatrixSource& source, const Run& run) {
  if (run.tensor->shape.rank != 2) unfit(run.tensor->name, shown(run.tensor->shape), "a matrix where the type is F8_E4M3");
  const std::int64_t all_rows = run.tensor->shape[0];
  const io::TensorInfo& scale = tensor(run.tensor->name + "_scale_inv", {Shape(blocks(all_rows), blocks(source.stored_cols))});
  if (!is_float(scale.type) && scale.type != DType::f8_e8m0)
    unfit(scale.name, std::string(format(scale.type).name), "F32 or F8_E8M0");
  const std::int64_t skipped = run.first / kScaleBlock * blocks(source.stored_cols) * format(scale.type).bytes;
  source.scales.push_back({.file = scale.file,
                           .offset = scale.offset + static_cast<std::uint64_t>(skipped),
                           .type = scale.type,
                           .lead = run.first % kScaleBlock});
}

MatrixId Assembly::bind(const std::vector<Run>& runs, const Shaping& shaping) {
  MatrixSource source;
  const io::TensorInfo& head = *runs.front().tensor;
  const FormatInfo& info = format(head.type);
  if (!info.weight) unfit(head.name, std::string(info.name), "a weight format");
  if (shaping.cols % info.block != 0)
    throw Error(Code::format, "model",
                fmt::format("{}: got {} columns, expected a multiple of {} for {}", io::quoted(head.name), shaping.cols,
                            info.block, info.name));
  source.stored = head.type;
  source.stored_cols = shaping.cols;
  source.transpose = shaping.transpose;
  source.decode = shaping.decode && head.type != DType::f32;
  const std::int64_t row_bytes = format_bytes(head.type, shaping.cols);
  for (const Run& run : runs) {
    if (run.tensor->type != head.type)
      unfit(run.tensor->name, std::string(format(run.tensor->type).name),
            fmt::format("{} like {}", info.name, io::quoted(head.name)));
    source.pieces.push_back({.file = run.tensor->file,
                             .offset = run.tensor->offset + static_cast<std::uint64_t>(run.first * row_bytes),
                             .rows = run.rows});
    if (head.type == DType::f8_e4m3) bind_scales(source, run);
  }
  source.desc = {.name = keep(head.name),
                 .type = source.decode ? DType::f32 : head.type,
                 .count = shaping.count,
                 .rows = shaping.transpose ? shaping.cols : shaping.rows,
                 .cols = shaping.transpose ? shaping.rows : shaping.cols};
  spec_.matrices.push_back(std::move(source));
  return builder_.matrix(spec_.matrices.back().desc);
}

VectorId Assembly::bind_vector(const std::string& name, std::int64_t first, std::int64_t width, std::int64_t of, float plus) {
  const io::TensorInfo& t = tensor(name, {Shape(of)});
  if (!is_float(t.type)) unfit(name, std::string(format(t.type).name), "F32, F16 or BF16");
  spec_.vectors.push_back({.name = keep(name),
                           .width = width,
                           .file = t.file,
                           .offset = t.offset + static_cast<std::uint64_t>(first * format(t.type).bytes),
                           .type = t.type,
                           .plus = plus});
  return builder_.vector(width);
}

std::vector<float> Assembly::read_floats(const io::TensorInfo& t) const {
  std::vector<float> values(static_cast<std::size_t>(t.shape[0]));
  const VectorSource source{.name = t.name, .width = t.shape[0], .file = t.file, .offset = t.offset, .type = t.type};
  read_vector(checkpoint_, source, values.data());
  return values;
}

ValueId Assembly::embed(bool scale_by_sqrt) {
  const Config& c = config();
  embedding_ = top().matrix({"token_embd", "embed_tokens"}, c.vocab_size, c.hidden_size);
  float scale = 1;
  if (scale_by_sqrt) {
    scale = static_cast<float>(std::sqrt(static_cast<double>(c.hidden_size)));
    const DType type = spec_.matrices[static_cast<std::size_t>(embedding_)].stored;
    if (!gguf() && type == DType::bf16) scale = bf16_to_f32(f32_to_bf16(scale));
    if (!gguf() && type == DType::f16) scale = f16_to_f32(f32_to_f16(scale));
  }
  const ValueId x = value(c.hidden_size);
  add(Embed{.weight = embedding_, .scale = scale, .out = x});
  return x;
}

ValueId Assembly::angles(const RopeParameters& rope, std::int64_t dim, bool divide) {
  std::vector<float> freq = inv_freq(rope, dim);
  if (divide && gguf() && find("rope_freqs.weight") != nullptr) {
    const io::TensorInfo& t = tensor("rope_freqs.weight", {Shape(dim / 2)});
    if (!is_float(t.type)) unfit(t.name, std::string(format(t.type).name), "F32");
    const std::vector<float> factors = read_floats(t);
    for (std::size_t i = 0; i < freq.size(); ++i) {
      if (!(factors[i] > 0 && factors[i] < 1e9f))
        throw Error(Code::format, "model",
                    fmt::format("rope_freqs.weight: got {} at {}, expected factors in (0, 1e9)", factors[i], i));
      freq[i] /= factors[i];
    }
  }
  const ValueId out = value(dim);
  add(Angles{.inv_freq = std::move(freq), .scale = static_cast<float>(attention_factor(rope)), .out = out});
  return out;
}

void Assembly::head(ValueId x, float plus) {
  const Config& c = config();
  Head op;
  op.x = x;
  op.norm = top().norm({"output_norm", "norm"}, c.hidden_size, c.rms_norm_eps, plus);
  op.softcap = static_cast<float>(c.final_logit_softcapping);
  if (drafts()) {
    state_ = value(c.hidden_size);
    add(Join{.parts = {{x, op.norm}}, .out = state_});
  }
  // The head stands beside the trunk: its name does not carry the trunk's "model.".
  std::string name = "output.weight";
  if (!gguf()) {
    name = hf_prefix_.ends_with("model.") ? hf_prefix_.substr(0, hf_prefix_.size() - 6) + "lm_head.weight" : "lm_head.weight";
    if (find(name) == nullptr) name = "lm_head.weight";
  }
  const bool tied = gguf() ? find(name) == nullptr : c.tie_word_embeddings;
  op.weight = tied ? embedding_
                   : bind({{&tensor(name, {Shape(c.vocab_size, c.hidden_size)}), 0, c.vocab_size}},
                          {.rows = c.vocab_size, .cols = c.hidden_size});
  if (gguf() && find("output.bias") != nullptr) op.bias = bind_vector("output.bias", 0, c.vocab_size, c.vocab_size, 0);
  const ValueId logits = builder_.logits(c.vocab_size);
  op.out = logits;
  head_ = op.weight;
  hidden_ = x;
  logits_ = logits;
  add(std::move(op));
  if (!drafts()) finish(x, logits);
}

bool Assembly::drafts() {
  const Config& c = config();
  return options_.mtp && c.kv_lora_rank > 0 && c.num_nextn_predict_layers > 0 &&
         layer(c.num_hidden_layers).has({"nextn.eh_proj", "eh_proj"});
}

ValueId Assembly::begin_draft() {
  const ValueId state = value(config().hidden_size);
  builder_.begin_draft(state_, state);
  return state;
}

void Assembly::draft_head(Scope& block, ValueId x) {
  const Config& c = config();
  const Norm norm = block.norm({"nextn.shared_head_norm", "shared_head.norm"}, c.hidden_size, c.rms_norm_eps);
  const Name own{"nextn.shared_head_head", "shared_head.head"};
  const ValueId next = value(c.hidden_size), logits = builder_.logits(c.vocab_size);
  add(Join{.parts = {{x, norm}}, .out = next});
  add(Head{
      .x = x, .norm = norm, .weight = block.has(own) ? block.matrix(own, c.vocab_size, c.hidden_size) : head_, .out = logits});
  builder_.end_draft(next, logits);
  finish(hidden_, logits_);
}

void Assembly::finish(ValueId hidden, ValueId logits) {
  spec_.graph = builder_.finish(hidden, logits);
  for (std::size_t i = 0; i < used_.size(); ++i)
    if (!used_[i]) spec_.extra_tensors.push_back(checkpoint_.tensors[i].name);
}

}  // namespace dsv31::inline v1::model
