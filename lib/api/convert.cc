// A conversion in two passes: from the headers alone, the list of what will be written; then band by band of 128 rows, read,
// converted, written. A band is all that is in memory.
#include "dsv31/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "dsv31/quant.h"
#include "lib/io/bytes.h"
#include "lib/io/checkpoint.h"
#include "lib/io/file.h"
#include "lib/io/safetensors_writer.h"
#include "lib/quant/fp8_blocks.h"
#include "lib/text/format_json.h"

namespace dsv31::inline v1 {
namespace {

constexpr std::int64_t kBlock = 128;
constexpr std::uint64_t kCopyBytes = 4 << 20;
constexpr std::string_view kWeight = ".weight", kScale = "_scale_inv", kConfig = "config.json";

std::int64_t blocks(std::int64_t n, std::int64_t block) { return n / block + (n % block != 0); }

// The matrices that DeepSeek's FP8 checkpoints hold in FP8: the projections of attention, experts and indexer.
bool ships_in_fp8(const io::TensorInfo& t) {
  std::string_view name = t.name;
  if (t.shape.rank != 2 || (t.type != DType::f32 && t.type != DType::f16 && t.type != DType::bf16)) return false;
  if (!name.ends_with(kWeight)) return false;
  name.remove_suffix(kWeight.size());
  name.remove_prefix(std::min(name.size(), name.rfind('.') + 1));
  if (name == "eh_proj" || name == "weights_proj") return false;
  return name.ends_with("_proj") || name == "kv_a_proj_with_mqa" || name == "wq_b" || name == "wk";
}

// What becomes of one tensor.
struct Job {
  enum class Kind { copy, encode, decode };
  Kind kind = Kind::copy;
  const io::TensorInfo* from = nullptr;
  const io::TensorInfo* scale = nullptr;  // decode
};

struct Plan {
  std::vector<Job> jobs;
  std::vector<io::TensorInfo> written;
};

io::TensorInfo tensor_of(std::string name, DType type, Shape shape) {
  io::TensorInfo t{.name = std::move(name), .type = type, .shape = shape};
  std::int64_t elements = 1;
  for (int i = 0; i < shape.rank; ++i) elements *= shape[i];
  t.bytes = static_cast<std::uint64_t>(format_bytes(type, elements));
  return t;
}

Plan plan(const io::Checkpoint& c, WeightFormat to) {
  Plan out;
  for (const io::TensorInfo& t : c.tensors) {
    Job job{.from = &t};
    if (to == WeightFormat::fp8) {
      if (t.type == DType::f8_e4m3)
        throw Error(Code::unsupported, "convert",
                    fmt::format("{}: got F8_E4M3, expected weights that are not quantised yet", io::quoted(t.name)));
      if (ships_in_fp8(t)) {
        job.kind = Job::Kind::encode;
        out.written.push_back(tensor_of(t.name, DType::f8_e4m3, t.shape));
        out.written.push_back(
            tensor_of(t.name + std::string(kScale), DType::f32, Shape(blocks(t.shape[0], kBlock), blocks(t.shape[1], kBlock))));
        out.jobs.push_back(job);
        continue;
      }
    } else {
      if (t.name.ends_with(kScale)) {
        const io::TensorInfo* codes = c.find(std::string_view(t.name).substr(0, t.name.size() - kScale.size()));
        if (codes != nullptr && codes->type == DType::f8_e4m3) continue;
      }
      if (t.type == DType::f8_e4m3 && t.name.ends_with(kWeight)) {  // its scales were checked on opening
        job.kind = Job::Kind::decode;
        job.scale = c.find(t.name + std::string(kScale));
        out.written.push_back(tensor_of(t.name, DType::bf16, t.shape));
        out.jobs.push_back(job);
        continue;
      }
    }
    out.written.push_back(t);
    out.jobs.push_back(job);
  }
  return out;
}

// Reads, converts and writes; keeps the sums of the report.
class Conversion {
 public:
  Conversion(const io::Checkpoint& c, const io::Watch& watch, std::int64_t block_rows, std::int64_t block_cols,
             io::SafetensorsWriter& writer)
      : c_(c), watch_(watch), block_rows_(block_rows), block_cols_(block_cols), writer_(writer) {
    for (const io::TensorInfo& t : c.tensors) total_ += t.bytes;
  }

  void run(const Job& job) {
    ++report.tensors;
    if (job.kind != Job::Kind::copy) ++report.converted;
    job.kind == Job::Kind::copy ? copy(*job.from) : job.kind == Job::Kind::encode ? encode(*job.from) : decode(job);
  }
  void finish() {
    report.source_bytes = done_;
    report.nmse = square_ > 0 ? error_ / square_ : 0;
  }

  ConvertReport report;

 private:
  void read(const io::TensorInfo& t, std::uint64_t offset, std::uint64_t n) {
    bytes_.resize(static_cast<std::size_t>(n));
    c_.files[t.file]->read_at(t.offset + offset, bytes_.data(), bytes_.size());
    done_ += n;
    watch_.report(Stage::read_weights, done_, total_);
  }
  void write(const void* data, std::uint64_t n) {
    writer_.write(data, static_cast<std::size_t>(n));
    report.written_bytes += n;
  }

  void copy(const io::TensorInfo& t) {
    for (std::uint64_t at = 0; at < t.bytes; at += kCopyBytes) {
      const std::uint64_t n = std::min(kCopyBytes, t.bytes - at);
      read(t, at, n);
      write(bytes_.data(), n);
    }
  }

  void encode(const io::TensorInfo& t) {
    const std::int64_t rows = t.shape[0], cols = t.shape[1], across = blocks(cols, kBlock);
    const FormatInfo& source = format(t.type);
    scales_.resize(static_cast<std::size_t>(blocks(rows, kBlock) * across));
    for (std::int64_t r = 0; r < rows; r += kBlock) {
      const std::int64_t n = std::min(kBlock, rows - r), values = n * cols;
      read(t, static_cast<std::uint64_t>(r * cols * source.bytes), static_cast<std::uint64_t>(values * source.bytes));
      values_.resize(static_cast<std::size_t>(values));
      source.decode(bytes_.data(), values, values_.data());
      if (!std::all_of(values_.begin(), values_.end(), [](float v) { return std::isfinite(v); }))
        throw Error(Code::format, "convert",
                    fmt::format("{}: got a value that is not finite, expected none", io::quoted(t.name)));
      codes_.resize(static_cast<std::size_t>(values));
      const quant::Fp8Band band{.rows = n, .cols = cols, .codes = codes_.data(), .scales = scales_.data() + r / kBlock * across};
      quant::encode_fp8(values_.data(), band);
      write(codes_.data(), codes_.size());
      result_.resize(values_.size());
      quant::decode_fp8(band, result_.data());
      compare();
    }
    write(scales_.data(), scales_.size() * sizeof(float));
  }

  void decode(const Job& job) {
    const io::TensorInfo& t = *job.from;
    const std::int64_t rows = t.shape[0], cols = t.shape[1], across = blocks(cols, block_cols_);
    read(*job.scale, 0, job.scale->bytes);
    scales_.resize(static_cast<std::size_t>(blocks(rows, block_rows_) * across));
    format(job.scale->type).decode(bytes_.data(), static_cast<std::int64_t>(scales_.size()), scales_.data());
    for (std::int64_t r = 0; r < rows; r += block_rows_) {
      const std::int64_t n = std::min(block_rows_, rows - r), values = n * cols;
      read(t, static_cast<std::uint64_t>(r * cols), static_cast<std::uint64_t>(values));
      values_.resize(static_cast<std::size_t>(values));
      quant::decode_fp8({.rows = n,
                         .cols = cols,
                         .block = block_cols_,
                         .codes = bytes_.data(),
                         .scales = scales_.data() + r / block_rows_ * across},
                        values_.data());
      codes_.resize(values_.size() * 2);
      format(DType::bf16).encode(values_.data(), values, codes_.data());
      write(codes_.data(), codes_.size());
      result_.resize(values_.size());
      format(DType::bf16).decode(codes_.data(), values, result_.data());
      compare();
    }
  }

  // Adds the error of result_ against values_.
  void compare() {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const double v = static_cast<double>(values_[i]), d = static_cast<double>(result_[i]) - v;
      square_ += v * v;
      error_ += d * d;
    }
  }

  const io::Checkpoint& c_;
  const io::Watch& watch_;
  std::int64_t block_rows_, block_cols_;
  io::SafetensorsWriter& writer_;
  std::uint64_t total_ = 0, done_ = 0;
  double square_ = 0, error_ = 0;
  std::vector<std::byte> bytes_, codes_;
  std::vector<float> values_, result_, scales_;
};

// config.json with quantization_config as the weights are now.
std::string config_text(const io::Json& config, WeightFormat to) {
  io::Json::Object members = config.as_object();
  std::erase_if(members, [](const auto& m) { return m.first == "quantization_config"; });
  if (to == WeightFormat::fp8)
    members.emplace_back("quantization_config", io::Json::Object{{"activation_scheme", "dynamic"},
                                                                 {"fmt", "e4m3"},
                                                                 {"quant_method", "fp8"},
                                                                 {"weight_block_size", io::Json::Array{kBlock, kBlock}}});
  return text::python_json(io::Json(std::move(members))) + "\n";
}

bool copied(std::string_view name) {
  if (name == kConfig || name.ends_with(".index.json")) return false;
  for (std::string_view end : {".json", ".jinja", ".model", ".txt", ".md"})
    if (name.ends_with(end)) return true;
  return name.starts_with("LICENSE");
}

}  // namespace

ConvertReport convert(const std::string& in, const std::string& out, const ConvertOptions& options) {
  if (!io::is_folder(in)) throw Error(Code::argument, "convert.in", "got no folder, expected a Hugging Face folder");
  const io::Checkpoint c = io::open_checkpoint(in, {.progress = options.progress, .cancel = options.cancel, .limits = {}});
  const io::Json* quantization = c.config.find("quantization_config");
  if (quantization != nullptr && !quantization->is_object()) quantization = nullptr;
  if (quantization != nullptr && (options.to == WeightFormat::fp8 || quantization->string_or("quant_method", "") != "fp8"))
    throw Error(Code::unsupported, "convert",
                "got a quantization_config, expected weights that are not quantised yet, or FP8 to bf16");
  std::int64_t block_rows = kBlock, block_cols = kBlock;
  if (quantization != nullptr && quantization->has("weight_block_size")) {  // its form was checked on opening
    const io::Json::Array& size = quantization->get_array("weight_block_size");
    block_rows = size[0].as_int(), block_cols = size[1].as_int();
  }
  const io::Watch watch(&options.progress, options.cancel);
  Plan work = plan(c, options.to);
  io::OutputFolder folder(out);
  ConvertReport report;
  {
    io::SafetensorsWriter writer(folder, std::move(work.written), c.file_metadata, options.shard_bytes);
    Conversion conversion(c, watch, block_rows, block_cols, writer);
    for (const Job& job : work.jobs) conversion.run(job);
    writer.finish();
    conversion.finish();
    report = conversion.report;
  }
  const std::shared_ptr<const Folder> source = open_folder(in);
  for (const std::string& name : io::list_files(in)) {
    if (!copied(name)) continue;
    const auto file = source->open(name);
    if (file == nullptr) continue;
    folder.write(name, io::read_text(*file, io::OpenLimits{}.max_text_bytes, name));
    watch.check();
  }
  folder.write(kConfig, config_text(c.config, options.to));
  folder.keep();
  return report;
}

}  // namespace dsv31::inline v1
