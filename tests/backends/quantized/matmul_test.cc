// The int8 product: every instruction set gives the bits of the plain loops, and the plain loops are right.
#include <limits>

#include "backends/quantized/generic/codes.h"
#include "tests/backends/quantized/product_case.h"
#include "tests/catch.h"

using namespace quantized_test;
using simd::Isa;

namespace {

std::vector<Isa> fast_isas() {
  std::vector<Isa> out;
  for (Isa isa : {Isa::avx2, Isa::avx512, Isa::amx})
    if (simd::supported(isa)) out.push_back(isa);
  return out;
}

void check_same_bits(const quantized::Layout& layout, const PackedCase& w, const QuantisedRows& x, std::int64_t m,
                     const std::int32_t* rows) {
  const std::vector<float> want = product(*quantized::kernel(layout.type, Isa::generic), w, x.x, m, rows);
  for (Isa isa : fast_isas()) {
    INFO(format(layout.type).name << " " << simd::isa_name(isa) << " rows " << w.desc.rows << " cols " << w.desc.cols << " m "
                                  << m);
    CHECK(first_difference(product(*quantized::kernel(layout.type, isa), w, x.x, m, rows), want) == -1);
  }
}

}  // namespace

TEST_CASE("every instruction set gives the same bits for every format and shape") {
  struct Size {
    std::int64_t rows, blocks;
  };
  for (const quantized::Layout& layout : quantized::kLayouts)
    for (const Size& size : {Size{16, 1}, Size{70, 3}, Size{33, layout.block == 32 ? 37 : 5}}) {
      const std::int64_t cols = size.blocks * layout.block;
      const PackedCase w(layout, size.rows, cols,
                         random_rows(layout, size.rows, cols, 11 + static_cast<std::uint64_t>(size.rows)));
      QuantisedRows x(64, cols);
      fill_random(x, 64, 5);
      for (std::int64_t m : {1, 2, 3, 5, 7, 8, 9, 17, 23, 64}) check_same_bits(layout, w, x, m, nullptr);
    }
}

TEST_CASE("columns come through the index list, and none depends on another") {
  const std::vector<std::int32_t> rows = {9, 0, 31, 31, 4, 17, 2, 25, 8, 1, 30};
  for (const quantized::Layout& layout : quantized::kLayouts) {
    const std::int64_t cols = 2 * layout.block;
    const PackedCase w(layout, 48, cols, random_rows(layout, 48, cols, 21));
    QuantisedRows x(32, cols);
    fill_random(x, 32, 8);
    check_same_bits(layout, w, x, static_cast<std::int64_t>(rows.size()), rows.data());
    for (int isa = 0; isa < simd::kIsaCount; ++isa) {
      if (!simd::supported(static_cast<Isa>(isa))) continue;
      INFO(format(layout.type).name << " " << simd::isa_name(static_cast<Isa>(isa)));
      const cpu::MatmulKernel& kernel = *quantized::kernel(layout.type, static_cast<Isa>(isa));
      const std::vector<float> together = product(kernel, w, x.x, static_cast<std::int64_t>(rows.size()), rows.data());
      for (std::size_t j = 0; j < rows.size(); ++j) {
        const std::vector<float> alone = product(kernel, w, x.x, 1, &rows[j]);
        CHECK(std::memcmp(alone.data(), together.data() + 48 * j, 48 * sizeof(float)) == 0);
      }
    }
  }
}

TEST_CASE("extreme codes, scales and activations do not saturate") {
  for (const quantized::Layout& layout : quantized::kLayouts) {
    const std::int64_t cols = 2 * layout.block;
    for (int pattern : {0x00, 0xFF, 0x80, 0x7F, 0x88, 0x77, 0x0F, 0xF0}) {
      std::vector<std::byte> src(static_cast<std::size_t>(16 * cols / layout.block * layout.source_bytes),
                                 static_cast<std::byte>(pattern));
      for (std::size_t at = 0; at < src.size(); at += static_cast<std::size_t>(layout.source_bytes)) {
        for (int f : half_fields(layout)) {
          src[at + static_cast<std::size_t>(f)] = std::byte{0};
          src[at + static_cast<std::size_t>(f) + 1] = std::byte{0x3C};
        }
        if (layout.type == DType::mxfp4) src[at] = std::byte{127};
      }
      const PackedCase w(layout, 16, cols, src);
      QuantisedRows x(12, cols);
      fill_random(x, 12, 3);
      for (std::int64_t r = 0; r < 12; ++r) {
        for (std::int64_t k = 0; k < cols; ++k)
          x.q[static_cast<std::size_t>(r * x.stride + k)] =
              static_cast<std::int8_t>((r == 0 || (r % 2 == 0 && k % 2 == 0)) ? 127 : -127);
        x.set_sums(r);
      }
      for (std::int64_t m : {1, 4, 12}) check_same_bits(layout, w, x, m, nullptr);
    }
  }
}

TEST_CASE("the product is that of the decoded weights, up to rounding") {
  for (const quantized::Layout& layout : quantized::kLayouts) {
    const std::int64_t rows = 18, cols = 1024, m = 3, group = cpu::kGroup, row_bytes = cols / layout.block * layout.source_bytes;
    const PackedCase w(layout, rows, cols, random_rows(layout, rows, cols, 99));
    QuantisedRows x(m, cols);
    fill_random(x, m, 42);
    const std::vector<float> y = product(*quantized::kernel(layout.type, Isa::generic), w, x.x, m);
    std::vector<float> decoded(static_cast<std::size_t>(cols));
    quantized::generic::Codes codes;
    for (std::int64_t r = 0; r < rows; ++r) {
      format(layout.type).decode(w.src.data() + r * row_bytes, cols / layout.block, decoded.data());
      for (std::int64_t j = 0; j < m; ++j) {
        double want = 0, magnitude = 0;  // magnitude: of all that is added, codes and minima apart
        for (std::int64_t k = 0; k < cols; ++k) {
          if (k % layout.block == 0)
            quantized::generic::read_codes(layout.type, w.src.data() + r * row_bytes + k / layout.block * layout.source_bytes,
                                           codes);
          const auto in = static_cast<std::size_t>(k % layout.block);
          const double a = double{x.scale[static_cast<std::size_t>(j * x.x.scale_stride + k / group)]} *
                           x.q[static_cast<std::size_t>(j * x.stride + k)];
          want += double{decoded[static_cast<std::size_t>(k)]} * a;
          magnitude += std::fabs(a) * (std::fabs(double{codes.scale} * codes.sub_scale[in / 16] * codes.code[in]) +
                                       std::fabs(double{codes.min_scale} * codes.sub_min[in / 16]));
        }
        // Each group rounds at most six times (two conversions, two scale products, two fma), each decoded weight three times.
        const double bound = std::ldexp(1.0, -24) * magnitude * static_cast<double>(2 * (cols / group) + 7);
        INFO(format(layout.type).name << " row " << r << " column " << j);
        CHECK(std::fabs(double{y[static_cast<std::size_t>(j * 32 + r)]} - want) <= bound);
      }
    }
    for (std::int64_t j = 0; j < m; ++j)
      for (std::int64_t r = rows; r < 32; ++r) CHECK(y[static_cast<std::size_t>(j * 32 + r)] == 0.0f);
  }
}

TEST_CASE("the exact product is one fma a weight, K ascending, on the decoded values") {
  for (const quantized::Layout& layout : quantized::kLayouts) {
    const std::int64_t rows = 21, cols = 768, m = 3, row_bytes = cols / layout.block * layout.source_bytes;
    const PackedCase w(layout, rows, cols, random_rows(layout, rows, cols, 4));
    Walled<float> values(static_cast<std::size_t>(m * cols));
    Random random{6};
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(static_cast<std::int32_t>(random.next())) * 0x1.0p-31f;
    cpu::Activations x;
    x.cols = cols;
    x.f32 = values.data();
    x.f32_stride = cols;
    std::vector<float> want(static_cast<std::size_t>(m * 32), 0.0f), decoded(static_cast<std::size_t>(cols));
    for (std::int64_t r = 0; r < rows; ++r) {
      format(layout.type).decode(w.src.data() + r * row_bytes, cols / layout.block, decoded.data());
      for (std::int64_t j = 0; j < m; ++j)
        for (std::int64_t k = 0; k < cols; ++k) {
          float& acc = want[static_cast<std::size_t>(j * 32 + r)];
          acc = std::fma(decoded[static_cast<std::size_t>(k)], values[static_cast<std::size_t>(j * cols + k)], acc);
        }
    }
    for (int isa = 0; isa < simd::kIsaCount; ++isa) {
      if (!simd::supported(static_cast<Isa>(isa))) continue;
      INFO(format(layout.type).name << " " << simd::isa_name(static_cast<Isa>(isa)));
      CHECK(first_difference(product(*quantized::exact_kernel(layout.type, static_cast<Isa>(isa)), w, x, m), want) == -1);
    }
  }
}
