#include "tests/backends/conformance/op_case.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "dsv31/quant.h"

namespace conformance {

Random::Random(std::string_view seed) : state_(0xcbf29ce484222325u) {
  for (const char ch : seed) state_ = (state_ ^ static_cast<unsigned char>(ch)) * 0x100000001b3u;  // FNV-1a
  state_ |= 1;
}
std::uint64_t Random::bits() {
  state_ ^= state_ >> 12;
  state_ ^= state_ << 25;
  state_ ^= state_ >> 27;
  return (state_ * 0x2545f4914f6cdd1du) >> 8;
}
double Random::uniform() { return static_cast<double>(bits() >> 3) * 0x1p-53; }
double Random::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(6.283185307179586 * uniform());
}

std::string Past::name() const {
  std::string text = fmt::format("{}+{}", position, rows);
  if (window.window > 0) text += fmt::format(" of {} and {}", window.window, window.sinks);
  return text;
}

std::int64_t OpCase::rows() const {
  std::int64_t n = 0;
  for (const Past& s : sequences) n += s.rows;
  return n;
}

namespace {

void put_half(std::byte* at, double x) {
  const std::uint16_t bits = f32_to_f16(static_cast<float>(x));
  std::memcpy(at, &bits, 2);
}

// A block of a format without an encoder: random bits, with scales such that the weights' deviation is about `scale`.
void random_block(DType type, double scale, Random& random, std::byte* block) {
  for (std::int64_t i = 0; i < format(type).bytes; ++i) block[i] = static_cast<std::byte>(random.bits() & 0xff);
  const double d = scale * (0.5 + random.uniform()) * (random.bits() % 2 == 0 ? 1 : -1);
  switch (type) {
    case DType::q2_k:  // scales and minima of 4 bits
      put_half(block + 80, d / 16);
      put_half(block + 82, d / 12);
      break;
    case DType::q3_k:
      put_half(block + 108, d / 64);
      break;
    case DType::q4_k:  // scales and minima of 6 bits
      put_half(block, d / 256);
      put_half(block + 2, d / 36);
      break;
    case DType::q5_k:
      put_half(block, d / 512);
      put_half(block + 2, d / 36);
      break;
    case DType::q6_k:
      put_half(block + 208, d / 1024);
      break;
    case DType::iq4_nl:
      put_half(block, d / 64);
      break;
    case DType::iq4_xs:
      put_half(block, d / 1024);
      break;
    case DType::mxfp4:
      block[0] = static_cast<std::byte>(std::ilogb(d / 3) + 127);
      break;
    case DType::f8_e5m2: {
      // Sign and mantissa random, exponent in the five steps up to the scale: neither infinite nor NaN.
      const int exponent = std::ilogb(scale) + 15 - static_cast<int>(random.below(5));
      block[0] = (block[0] & std::byte{0x83}) | static_cast<std::byte>(std::max(exponent, 0) << 2);
      break;
    }
    default:
      break;
  }
}

}  // namespace

CaseBuilder::CaseBuilder(std::string name, std::vector<Past> sequences) : random_(name) {
  case_.name = std::move(name);
  case_.sequences = std::move(sequences);
}

ValueId CaseBuilder::input(std::int64_t width, double scale) {
  std::vector<float> data(static_cast<std::size_t>(rows() * width));
  for (float& x : data) x = static_cast<float>(scale * random_.normal());
  return input_of(width, std::move(data));
}
ValueId CaseBuilder::input_of(std::int64_t width, std::vector<float> data) {
  case_.values.push_back({.width = width, .data = std::move(data)});
  return static_cast<ValueId>(case_.values.size() - 1);
}
ValueId CaseBuilder::output(std::int64_t width, bool logits) {
  case_.values.push_back({.width = width, .written = true, .logits = logits});
  case_.outputs.push_back(static_cast<ValueId>(case_.values.size() - 1));
  return case_.outputs.back();
}
ValueId CaseBuilder::inout(ValueId input, bool compared) {
  case_.values[static_cast<std::size_t>(input)].written = true;
  if (compared) case_.outputs.push_back(input);
  return input;
}

MatrixId CaseBuilder::matrix(DType type, std::int64_t count, std::int64_t rows, std::int64_t cols, bool block_scales) {
  const FormatInfo& f = format(type);
  const std::int64_t blocks = count * rows * cols / f.block;
  const double scale = 1 / std::sqrt(static_cast<double>(cols));
  std::vector<std::byte> bytes(static_cast<std::size_t>(blocks * f.bytes));
  std::vector<float> values(static_cast<std::size_t>(f.block));
  for (std::int64_t b = 0; b < blocks; ++b) {
    if (f.encode == nullptr) {
      random_block(type, scale, random_, bytes.data() + b * f.bytes);
    } else {
      for (float& x : values) x = static_cast<float>(random_.normal() * (block_scales ? 100 : scale));
      f.encode(values.data(), 1, bytes.data() + b * f.bytes);
    }
  }
  std::vector<float> scales;
  if (block_scales) {
    scales.resize(static_cast<std::size_t>(count * ((rows + 127) / 128) * ((cols + 127) / 128)));
    for (float& x : scales) x = static_cast<float>(scale / 100 * (0.5 + random_.uniform()));
  }
  case_.graph.matrices.push_back({"weight", type, count, rows, cols});
  case_.weights.push_back(std::move(bytes));
  case_.scales.push_back(std::move(scales));
  return static_cast<MatrixId>(case_.weights.size() - 1);
}
MatrixId CaseBuilder::matrix_of(std::int64_t rows, std::int64_t cols, const std::vector<float>& data) {
  std::vector<std::byte> bytes(data.size() * 4);
  std::memcpy(bytes.data(), data.data(), bytes.size());
  case_.graph.matrices.push_back({"weight", DType::f32, static_cast<std::int64_t>(data.size()) / rows / cols, rows, cols});
  case_.weights.push_back(std::move(bytes));
  case_.scales.emplace_back();
  return static_cast<MatrixId>(case_.weights.size() - 1);
}

VectorId CaseBuilder::vector(std::int64_t width, double centre, double scale) {
  std::vector<float> data(static_cast<std::size_t>(width));
  for (float& x : data) x = static_cast<float>(centre + scale * random_.normal());
  return vector_of(std::move(data));
}
VectorId CaseBuilder::vector_of(std::vector<float> data) {
  case_.graph.vector_widths.push_back(static_cast<std::int64_t>(data.size()));
  case_.vectors.push_back(std::move(data));
  return static_cast<VectorId>(case_.vectors.size() - 1);
}

void CaseBuilder::cache(std::int32_t layer, CacheDesc desc, bool rows_cached, double key_scale) {
  case_.graph.caches.assign(static_cast<std::size_t>(layer), CacheDesc{.num_key_value_heads = 1, .head_dim = 3});
  case_.graph.caches.push_back(desc);
  case_.layer = layer;
  case_.rows_cached = rows_cached;
  case_.key_scale = key_scale;
}

OpCase CaseBuilder::finish(Op op, double roundings) {
  case_.graph.ops = {std::move(op)};
  for (const Value& v : case_.values) case_.graph.values.push_back({v.width, v.logits});
  case_.graph.context_length = 1;
  for (const Past& s : case_.sequences) case_.graph.context_length = std::max(case_.graph.context_length, s.position + s.rows);
  case_.graph.vocab_size = 1000;
  case_.graph.hidden_size = case_.values.empty() ? 0 : case_.values[0].width;
  if (case_.tokens.empty()) case_.tokens.assign(static_cast<std::size_t>(rows()), 0);
  case_.roundings = roundings;
  return std::move(case_);
}

std::vector<DType> weight_types() {
  std::vector<DType> types;
  for (const FormatInfo& f : formats())
    if (f.weight) types.push_back(f.type);
  return types;
}
std::string type_name(DType type) { return std::string(format(type).name); }
std::int64_t fit(DType type, std::int64_t cols) {
  const std::int64_t block = format(type).block;
  return std::max(cols / block, std::int64_t{1}) * block;
}

}  // namespace conformance
