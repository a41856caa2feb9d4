// The table of formats: what a file may call a type, how large its blocks are, and its codec. A new format is a row here, a
// DType, and a file or a function beside this one.
#include <fmt/format.h>

#include <array>

#include "dsv31/error.h"
#include "lib/quant/codecs.h"

namespace dsv31::inline v1 {

namespace {
using namespace quant;

// {type, name, ggml id, safetensors, elements, bytes, weight, decode, encode}, in the order of DType.
constexpr std::array<FormatInfo, kDTypeCount> kFormats = {{
    {DType::f32, "F32", 0, "F32", 1, 4, true, decode_f32, encode_f32},
    {DType::f16, "F16", 1, "F16", 1, 2, true, decode_f16, encode_f16},
    {DType::bf16, "BF16", 30, "BF16", 1, 2, true, decode_bf16, encode_bf16},
    {DType::f64, "F64", 28, "F64", 1, 8, false, decode_f64, encode_f64},
    {DType::f8_e4m3, "F8_E4M3", -1, "F8_E4M3", 1, 1, true, decode_f8_e4m3, encode_f8_e4m3},
    {DType::f8_e5m2, "F8_E5M2", -1, "F8_E5M2", 1, 1, true, decode_f8_e5m2, nullptr},
    {DType::f8_e8m0, "F8_E8M0", -1, "F8_E8M0", 1, 1, false, decode_f8_e8m0, nullptr},
    {DType::i8, "I8", 24, "I8", 1, 1, false, nullptr, nullptr},
    {DType::i16, "I16", 25, "I16", 1, 2, false, nullptr, nullptr},
    {DType::i32, "I32", 26, "I32", 1, 4, false, nullptr, nullptr},
    {DType::i64, "I64", 27, "I64", 1, 8, false, nullptr, nullptr},
    {DType::u8, "U8", -1, "U8", 1, 1, false, nullptr, nullptr},
    {DType::u16, "U16", -1, "U16", 1, 2, false, nullptr, nullptr},
    {DType::u32, "U32", -1, "U32", 1, 4, false, nullptr, nullptr},
    {DType::u64, "U64", -1, "U64", 1, 8, false, nullptr, nullptr},
    {DType::boolean, "BOOL", -1, "BOOL", 1, 1, false, nullptr, nullptr},
    {DType::q4_0, "Q4_0", 2, "", 32, 18, true, decode_q4_0, encode_q4_0},
    {DType::q4_1, "Q4_1", 3, "", 32, 20, true, decode_q4_1, encode_q4_1},
    {DType::q5_0, "Q5_0", 6, "", 32, 22, true, decode_q5_0, encode_q5_0},
    {DType::q5_1, "Q5_1", 7, "", 32, 24, true, decode_q5_1, encode_q5_1},
    {DType::q8_0, "Q8_0", 8, "", 32, 34, true, decode_q8_0, encode_q8_0},
    {DType::q2_k, "Q2_K", 10, "", 256, 84, true, decode_q2_k, nullptr},
    {DType::q3_k, "Q3_K", 11, "", 256, 110, true, decode_q3_k, nullptr},
    {DType::q4_k, "Q4_K", 12, "", 256, 144, true, decode_q4_k, nullptr},
    {DType::q5_k, "Q5_K", 13, "", 256, 176, true, decode_q5_k, nullptr},
    {DType::q6_k, "Q6_K", 14, "", 256, 210, true, decode_q6_k, nullptr},
    {DType::iq4_nl, "IQ4_NL", 20, "", 32, 18, true, decode_iq4_nl, nullptr},
    {DType::iq4_xs, "IQ4_XS", 23, "", 256, 136, true, decode_iq4_xs, nullptr},
    {DType::mxfp4, "MXFP4", 39, "", 32, 17, true, decode_mxfp4, nullptr},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kFormats.size(); ++i)
    if (kFormats[i].type != static_cast<DType>(i)) return false;
  return true;
}
static_assert(in_order(), "a row of the table stands at the index of its DType");

// Names by ggml id; ids 4, 5, 31 to 33 and 36 to 38 were removed from ggml and keep their old names.
constexpr std::array<std::string_view, 43> kGgmlNames = {
    "F32",      "F16",    "Q4_0",  "Q4_1",       "Q4_2",       "Q4_3",       "Q5_0",   "Q5_1",    "Q8_0",  "Q8_1",     "Q2_K",
    "Q3_K",     "Q4_K",   "Q5_K",  "Q6_K",       "Q8_K",       "IQ2_XXS",    "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL",   "IQ3_S",
    "IQ2_S",    "IQ4_XS", "I8",    "I16",        "I32",        "I64",        "F64",    "IQ1_M",   "BF16",  "Q4_0_4_4", "Q4_0_4_8",
    "Q4_0_8_8", "TQ1_0",  "TQ2_0", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4",  "NVFP4",   "Q1_0",  "Q2_0"};

}  // namespace

const FormatInfo& format(DType type) noexcept { return kFormats[static_cast<std::size_t>(type)]; }
std::span<const FormatInfo> formats() noexcept { return kFormats; }

const FormatInfo* format_by_ggml_id(std::int64_t id) noexcept {
  if (id < 0) return nullptr;
  for (const FormatInfo& f : kFormats)
    if (f.ggml_id == id) return &f;
  return nullptr;
}

const FormatInfo* format_by_safetensors(std::string_view dtype) noexcept {
  if (dtype.empty()) return nullptr;
  for (const FormatInfo& f : kFormats)
    if (f.safetensors == dtype) return &f;
  return nullptr;
}

std::string_view ggml_type_name(std::int64_t id) noexcept {
  return id >= 0 && id < static_cast<std::int64_t>(kGgmlNames.size()) ? kGgmlNames[static_cast<std::size_t>(id)]
                                                                      : std::string_view{};
}

std::int64_t format_bytes(DType type, std::int64_t elements) {
  const FormatInfo& f = format(type);
  if (elements < 0 || elements % f.block != 0)
    throw Error{Code::argument, "quant.format_bytes",
                fmt::format("got {} elements of {}, expected a multiple of {}", elements, f.name, f.block)};
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(elements / f.block, f.bytes, &bytes))
    throw Error{Code::limit, "quant.format_bytes",
                fmt::format("got {} elements of {}, expected fewer than 2^63 bytes", elements, f.name)};
  return bytes;
}

}  // namespace dsv31::inline v1
