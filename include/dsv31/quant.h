// Weight formats: how many elements a block holds, how many bytes it takes, and its exact values.
// For authors of backends: this is the only way from a backend to the formats.
// All functions are thread-safe; the table is constant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "dsv31/export.h"
#include "dsv31/tensor.h"

namespace dsv31::inline v1 {

struct FormatInfo {
  DType type;
  std::string_view name;         // "Q4_K", "F8_E4M3": the spelling of the file formats
  int ggml_id;                   // id in GGUF, -1 where GGUF has none
  std::string_view safetensors;  // dtype in safetensors, empty where it has none
  std::int64_t block;            // elements
  std::int64_t bytes;            // per block
  bool weight;                   // usable as a weight matrix
  // Exact float32 values of `blocks` blocks. src (blocks * bytes), dst (blocks * block). Null for types that are no weights.
  void (*decode)(const std::byte* src, std::int64_t blocks, float* dst);
  // Nearest encoding by the reference quantiser of the format; null where there is only a decoder.
  void (*encode)(const float* src, std::int64_t blocks, std::byte* dst);
};

DSV31_API const FormatInfo& format(DType type) noexcept;
DSV31_API std::span<const FormatInfo> formats() noexcept;
// Null where the id or name is unknown.
DSV31_API const FormatInfo* format_by_ggml_id(std::int64_t id) noexcept;
DSV31_API const FormatInfo* format_by_safetensors(std::string_view dtype) noexcept;
// The name ggml gives an id that this library does not read ("IQ2_XXS"), or empty.
DSV31_API std::string_view ggml_type_name(std::int64_t id) noexcept;
// Bytes of `elements` elements, a multiple of the block. Throws limit when the product does not fit 63 bits.
DSV31_API std::int64_t format_bytes(DType type, std::int64_t elements);

// IEEE half and bfloat16, to nearest even; E4M3FN (0x7f and 0xff are NaN) and E8M0 (255 is NaN), exact.
DSV31_API float f16_to_f32(std::uint16_t bits) noexcept;
DSV31_API std::uint16_t f32_to_f16(float value) noexcept;
DSV31_API float bf16_to_f32(std::uint16_t bits) noexcept;
DSV31_API std::uint16_t f32_to_bf16(float value) noexcept;
DSV31_API float e4m3_to_f32(std::uint8_t bits) noexcept;
DSV31_API std::uint8_t f32_to_e4m3(float value) noexcept;
DSV31_API float e8m0_to_f32(std::uint8_t bits) noexcept;

}  // namespace dsv31::inline v1
