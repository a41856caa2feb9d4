// Packing and unpacking by the table of layout.h. One pass over the packed bytes in order, reading 16 rows side by side.
#include "backends/quantized/layout.h"

#include <fmt/format.h>

#include <cstring>

#include "backends/quantized/packed.h"
#include "dsv31/error.h"
#include "dsv31/quant.h"

namespace dsv31::inline v1::quantized {

namespace {

// 8 bits of value to every fourth bit of a dword, and back.
std::uint32_t spread(std::uint32_t v) {
  v = (v | v << 12) & 0x000F000Fu;
  v = (v | v << 6) & 0x03030303u;
  return (v | v << 3) & 0x11111111u;
}
std::uint32_t gather(std::uint32_t v) {
  v &= 0x11111111u;
  v = (v | v >> 3) & 0x03030303u;
  v = (v | v >> 6) & 0x000F000Fu;
  return (v | v >> 12) & 0xFFu;
}
std::uint32_t load32(const std::byte* p) {  // little-endian on every host
  std::uint32_t v = 0;
  for (int i = 3; i >= 0; --i) v = v << 8 | std::to_integer<std::uint32_t>(p[i]);
  return v;
}
void store32(std::byte* p, std::uint32_t v) {
  for (int i = 0; i < 4; ++i) p[i] = static_cast<std::byte>(v >> (8 * i) & 0xFF);
}
void bits_to_bytes(const std::byte* src, std::byte* dst) {
  const std::uint32_t v = load32(src);
  store32(dst, gather(v) | gather(v >> 1) << 8 | gather(v >> 2) << 16 | gather(v >> 3) << 24);
}
void bytes_to_bits(const std::byte* src, std::byte* dst) {
  const std::uint32_t v = load32(src);
  store32(dst, spread(v & 255) | spread(v >> 8 & 255) << 1 | spread(v >> 16 & 255) << 2 | spread(v >> 24) << 3);
}

template <std::size_t kUnit>
void transpose_in(const std::byte* const* rows, int count, int units, std::byte* dst) {  // rows (count, units) -> dst (units, 16)
  for (int i = 0; i < units; ++i) {
    for (int r = 0; r < count; ++r)
      std::memcpy(dst + static_cast<std::size_t>(r) * kUnit, rows[r] + static_cast<std::size_t>(i) * kUnit, kUnit);
    if (count < 16) std::memset(dst + static_cast<std::size_t>(count) * kUnit, 0, static_cast<std::size_t>(16 - count) * kUnit);
    dst += 16 * kUnit;
  }
}
template <std::size_t kUnit>
void transpose_out(const std::byte* src, int units, std::byte* const* rows, int count) {
  for (int i = 0; i < units; ++i, src += 16 * kUnit)
    for (int r = 0; r < count; ++r)
      std::memcpy(rows[r] + static_cast<std::size_t>(i) * kUnit, src + static_cast<std::size_t>(r) * kUnit, kUnit);
}

void pack_block(const Layout& layout, const std::byte* const* rows, int count, std::byte* record) {
  for (const Field& f : layout.fields) {
    if (f.bytes == 0) break;
    const std::byte* from[16];
    std::byte qh[16][4];
    for (int r = 0; r < count; ++r) {
      from[r] = rows[r] + f.source;
      if (f.spread_bits) {
        bits_to_bytes(from[r], qh[r]);
        from[r] = qh[r];
      }
    }
    const int units = f.bytes / f.unit;
    f.unit == 4   ? transpose_in<4>(from, count, units, record)
    : f.unit == 2 ? transpose_in<2>(from, count, units, record)
                  : transpose_in<1>(from, count, units, record);
    record += 16 * f.bytes;
  }
}

void unpack_rows(const Layout& layout, const std::byte* record, std::byte* const* rows, int count) {
  for (const Field& f : layout.fields) {
    if (f.bytes == 0) break;
    std::byte* to[16];
    for (int r = 0; r < count; ++r) to[r] = rows[r] + f.source;
    const int units = f.bytes / f.unit;
    f.unit == 4   ? transpose_out<4>(record, units, to, count)
    : f.unit == 2 ? transpose_out<2>(record, units, to, count)
                  : transpose_out<1>(record, units, to, count);
    record += 16 * f.bytes;
    if (f.spread_bits)
      for (int r = 0; r < count; ++r) bytes_to_bits(to[r], to[r]);
  }
}

const Layout& checked_layout(const MatrixDesc& w) {
  const Layout* layout = layout_of(w.type);
  if (layout == nullptr)
    throw Error{Code::unsupported, "quantized.pack",
                fmt::format("got the type {}, expected a block format", format(w.type).name)};
  if (w.rows <= 0 || w.cols <= 0 || w.cols % layout->block != 0)
    throw Error{
        Code::argument, "quantized.pack",
        fmt::format("got a matrix ({}, {}), expected rows and columns in multiples of {}", w.rows, w.cols, layout->block)};
  return *layout;
}

std::size_t matrix_bytes(const MatrixDesc& w) {
  const Layout& layout = checked_layout(w);
  std::int64_t strip = 0, bytes = 0;
  if (w.rows > INT64_MAX - 15 || __builtin_mul_overflow(w.cols / layout.block, std::int64_t{layout.record_bytes()}, &strip) ||
      __builtin_mul_overflow((w.rows + 15) / 16, strip, &bytes) || bytes > INT64_MAX - 63)
    throw Error{Code::limit, "quantized.pack",
                fmt::format("got a matrix ({}, {}), expected fewer than 2^63 bytes", w.rows, w.cols)};
  return static_cast<std::size_t>(bytes + 63) / 64 * 64;
}

void check_range(const MatrixDesc& w, std::int64_t row_begin, std::int64_t row_end) {
  if (row_begin < 0 || row_begin > row_end || row_end > w.rows || row_begin % 16 != 0 || (row_end % 16 != 0 && row_end != w.rows))
    throw Error{Code::argument, "quantized.pack",
                fmt::format("got rows {} to {} of {}, expected whole strips of 16", row_begin, row_end, w.rows)};
}

void pack(const MatrixDesc& w, std::int64_t row_begin, std::int64_t row_end, const std::byte* src, std::byte* packed) {
  const Layout& layout = checked_layout(w);
  check_range(w, row_begin, row_end);
  const std::int64_t blocks = w.cols / layout.block, row_bytes = blocks * layout.source_bytes,
                     pitch = strip_bytes(layout, w.cols);
  for (std::int64_t row = row_begin; row < row_end; row += 16) {
    const int count = static_cast<int>(row_end - row < 16 ? row_end - row : 16);
    std::byte* strip = packed + row / 16 * pitch;
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::byte* rows[16];
      for (int r = 0; r < count; ++r) rows[r] = src + (row - row_begin + r) * row_bytes + b * layout.source_bytes;
      pack_block(layout, rows, count, strip + b * layout.record_bytes());
    }
  }
  // The matrix ends at a multiple of 64 bytes; what is behind the last strip is zero, so that equal weights give equal files.
  if (row_end == w.rows) {
    const std::int64_t used = (w.rows + 15) / 16 * pitch;
    std::memset(packed + used, 0, matrix_bytes(w) - static_cast<std::size_t>(used));
  }
}

void unpack(const MatrixDesc& w, std::int64_t row_begin, std::int64_t row_end, const std::byte* packed, std::byte* dst) {
  const Layout& layout = checked_layout(w);
  check_range(w, row_begin, row_end);
  const std::int64_t blocks = w.cols / layout.block, row_bytes = blocks * layout.source_bytes,
                     pitch = strip_bytes(layout, w.cols);
  for (std::int64_t row = row_begin; row < row_end; row += 16) {
    const int count = static_cast<int>(row_end - row < 16 ? row_end - row : 16);
    const std::byte* strip = packed + row / 16 * pitch;
    for (std::int64_t b = 0; b < blocks; ++b) {
      std::byte* rows[16];
      for (int r = 0; r < count; ++r) rows[r] = dst + (row - row_begin + r) * row_bytes + b * layout.source_bytes;
      unpack_rows(layout, strip + b * layout.record_bytes(), rows, count);
    }
  }
}

void decode_strip(const PackedMatrix& w, std::int64_t index, std::int64_t strip, std::int64_t k_begin, std::int64_t k_end,
                  float* out) {
  const Layout& layout = *layout_of(w.desc.type);
  const FormatInfo& info = format(w.desc.type);
  const std::byte* at = w.data + static_cast<std::size_t>(index) * w.stride + strip * strip_bytes(layout, w.desc.cols);
  std::byte rows[16 * kMaxSourceBytes];
  float values[256];
  for (std::int64_t b = k_begin / layout.block; b < k_end / layout.block; ++b, out += 16 * layout.block) {
    unpack_record(layout, at + b * layout.record_bytes(), rows);
    for (int r = 0; r < 16; ++r) {
      info.decode(rows + r * layout.source_bytes, 1, values);
      for (int k = 0; k < layout.block; ++k) out[16 * k + r] = values[k];
    }
  }
}

constexpr cpu::PackedFormat kFormat = {matrix_bytes, pack, unpack, decode_strip};

}  // namespace

void unpack_record(const Layout& layout, const std::byte* record, std::byte* rows) {
  std::byte* to[16];
  for (int r = 0; r < 16; ++r) to[r] = rows + r * layout.source_bytes;
  unpack_rows(layout, record, to, 16);
}

const cpu::PackedFormat* packed_format(DType type) { return layout_of(type) == nullptr ? nullptr : &kFormat; }

}  // namespace dsv31::inline v1::quantized
