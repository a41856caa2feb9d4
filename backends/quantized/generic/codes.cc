// Blocks taken apart element by element, by the layouts that lib/quant documents.
#include "backends/quantized/generic/codes.h"

#include <bit>

#include "dsv31/quant.h"

namespace dsv31::inline v1::quantized::generic {

namespace {

constexpr std::int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr std::int8_t kE2M1Doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

int u8(const std::byte* p, int i) { return std::to_integer<int>(p[i]); }
int i8(const std::byte* p, int i) { return static_cast<std::int8_t>(std::to_integer<std::uint8_t>(p[i])); }
std::uint16_t u16(const std::byte* p, int i) { return static_cast<std::uint16_t>(u8(p, i) | u8(p, i + 1) << 8); }
float half(const std::byte* p, int i) { return f16_to_f32(u16(p, i)); }

void no_sub_scales(Codes& out) {
  for (int s = 0; s < 16; ++s) {
    out.sub_scale[s] = 1;
    out.sub_min[s] = -1;  // read by formats whose minimum is added: Q4_1, Q5_1
  }
}

// Four-bit codes of 32 values, low nibbles first, and the fifth bits.
void nibbles(const std::byte* qs, const std::byte* qh, int offset, Codes& out) {
  const std::uint32_t high = qh == nullptr ? 0 : u16(qh, 0) | static_cast<std::uint32_t>(u16(qh, 2)) << 16;
  for (int k = 0; k < 32; ++k) {
    const int q = (u8(qs, k % 16) >> (k / 16 * 4) & 15) | static_cast<int>(high >> k & 1) << 4;
    out.code[k] = static_cast<std::int8_t>(q - offset);
  }
}

void levels(const std::byte* qs, const std::int8_t* table, std::int8_t* out) {
  for (int k = 0; k < 32; ++k) out[k] = table[u8(qs, k % 16) >> (k / 16 * 4) & 15];
}

void q2_k(const std::byte* p, Codes& out) {
  for (int s = 0; s < 16; ++s) {
    out.sub_scale[s] = u8(p, s) & 15;
    out.sub_min[s] = u8(p, s) >> 4;
  }
  for (int k = 0; k < 256; ++k)
    out.code[k] = static_cast<std::int8_t>(u8(p, 16 + 32 * (k / 128) + k % 32) >> (2 * (k / 32 % 4)) & 3);
  out.scale = half(p, 80);
  out.min_scale = half(p, 82);
}

void q3_k(const std::byte* p, Codes& out) {
  for (int s = 0; s < 16; ++s) {
    const int low = s < 8 ? u8(p, 96 + s) & 15 : u8(p, 88 + s) >> 4, high = u8(p, 104 + s % 4) >> (2 * (s / 4)) & 3;
    out.sub_scale[s] = (low | high << 4) - 32;
  }
  for (int k = 0; k < 256; ++k) {
    const int low = u8(p, 32 + 32 * (k / 128) + k % 32) >> (2 * (k / 32 % 4)) & 3, high = u8(p, k % 32) >> (k / 32) & 1;
    out.code[k] = static_cast<std::int8_t>((low | high << 2) - 4);
  }
  out.scale = half(p, 108);
}

void q4_or_5_k(const std::byte* p, bool fifth_bit, Codes& out) {
  const std::byte* s = p + 4;
  for (int j = 0; j < 8; ++j) {
    const int scale = j < 4 ? u8(s, j) & 63 : (u8(s, j + 4) & 15) | u8(s, j - 4) >> 6 << 4;
    const int minimum = j < 4 ? u8(s, j + 4) & 63 : u8(s, j + 4) >> 4 | u8(s, j) >> 6 << 4;
    out.sub_scale[2 * j] = out.sub_scale[2 * j + 1] = scale;
    out.sub_min[2 * j] = out.sub_min[2 * j + 1] = minimum;
  }
  const std::byte* qs = p + (fifth_bit ? 48 : 16);
  for (int k = 0; k < 256; ++k) {
    int q = u8(qs, 32 * (k / 64) + k % 32) >> (k / 32 % 2 * 4) & 15;
    if (fifth_bit) q |= (u8(p, 16 + k % 32) >> (k / 32) & 1) << 4;
    out.code[k] = static_cast<std::int8_t>(q);
  }
  out.scale = half(p, 0);
  out.min_scale = half(p, 2);
}

void q6_k(const std::byte* p, Codes& out) {
  for (int s = 0; s < 16; ++s) out.sub_scale[s] = i8(p, 192 + s);
  for (int k = 0; k < 256; ++k) {
    const int h = k / 128, c = k / 32 % 4, l = k % 32;
    const int low = u8(p, 64 * h + 32 * (c % 2) + l) >> (4 * (c / 2)) & 15, high = u8(p, 128 + 32 * h + l) >> (2 * c) & 3;
    out.code[k] = static_cast<std::int8_t>((low | high << 4) - 32);
  }
  out.scale = half(p, 208);
}

void iq4_xs(const std::byte* p, Codes& out) {
  for (int j = 0; j < 8; ++j) {
    const int low = u8(p, 4 + j / 2) >> (4 * (j % 2)) & 15, high = u16(p, 2) >> (2 * j) & 3;
    out.sub_scale[2 * j] = out.sub_scale[2 * j + 1] = (low | high << 4) - 32;
    levels(p + 8 + 16 * j, kIq4Levels, out.code + 32 * j);
  }
  out.scale = half(p, 0);
}

}  // namespace

void read_codes(DType type, const std::byte* p, Codes& out) {
  no_sub_scales(out);
  out.min_scale = 0.0f;
  out.scale = half(p, 0);
  switch (type) {
    case DType::q4_0:
      return nibbles(p + 2, nullptr, 8, out);
    case DType::q4_1:
      out.min_scale = half(p, 2);
      return nibbles(p + 4, nullptr, 0, out);
    case DType::q5_0:
      return nibbles(p + 6, p + 2, 16, out);
    case DType::q5_1:
      out.min_scale = half(p, 2);
      return nibbles(p + 8, p + 4, 0, out);
    case DType::q8_0:
      for (int k = 0; k < 32; ++k) out.code[k] = static_cast<std::int8_t>(i8(p, 2 + k));
      return;
    case DType::iq4_nl:
      return levels(p + 2, kIq4Levels, out.code);
    case DType::mxfp4: {
      const auto e = static_cast<std::uint32_t>(u8(p, 0));
      out.scale = std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23);
      return levels(p + 1, kE2M1Doubled, out.code);
    }
    case DType::q2_k:
      return q2_k(p, out);
    case DType::q3_k:
      return q3_k(p, out);
    case DType::q4_k:
      return q4_or_5_k(p, false, out);
    case DType::q5_k:
      return q4_or_5_k(p, true, out);
    case DType::q6_k:
      return q6_k(p, out);
    case DType::iq4_xs:
      return iq4_xs(p, out);
    default:
      return;
  }
}

bool has_min(DType type) {
  return type == DType::q4_1 || type == DType::q5_1 || type == DType::q2_k || type == DType::q4_k || type == DType::q5_k;
}

}  // namespace dsv31::inline v1::quantized::generic
