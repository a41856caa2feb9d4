// Packing of float weights and the bits of their products.
#include <cmath>
#include <cstring>

#include "backends/cpu/matmul.h"
#include "dsv31/quant.h"
#include "tests/backends/cpu/rig.h"
#include "tests/catch.h"

using namespace dsv31;
using cpu::kStrip;
using simd::Isa;

namespace {
constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3};
struct Dims {
  std::int64_t rows, cols;
};
constexpr Dims kDims[] = {{1, 1}, {3, 5}, {16, 16}, {17, 33}, {64, 127}, {70, 300}, {150, 259}};

struct Weights {
  PackedMatrix w;
  std::vector<std::byte> source;  // both matrices of the stack
  std::vector<float> scales;
  test::Aligned memory;

  Weights(DType type, Dims d, bool scaled)
      : w{{"w", type, 2, d.rows, d.cols}}, memory(2 * cpu::float_packed_format(type)->matrix_bytes(w.desc), 0xff) {
    const cpu::PackedFormat& f = *cpu::float_packed_format(type);
    w.stride = f.matrix_bytes(w.desc);
    w.data = memory.data();
    source = test::float_matrix(type, 2 * d.rows * d.cols, 5, 1);
    const std::size_t half = source.size() / 2;
    for (std::size_t i = 0; i < 2; ++i) f.pack(w.desc, 0, d.rows, source.data() + i * half, memory.data() + i * w.stride);
    if (scaled) {
      scales = test::normal(static_cast<std::size_t>(2 * ((d.rows + 127) / 128) * ((d.cols + 127) / 128)), 6);
      w.scales = scales.data();
    }
  }
  float value(std::int64_t index, std::int64_t row, std::int64_t k) const {
    const FormatInfo& f = format(w.desc.type);
    float v;
    f.decode(source.data() + static_cast<std::size_t>(((index * w.desc.rows + row) * w.desc.cols + k) * f.bytes), 1, &v);
    const std::int64_t block_rows = (w.desc.rows + 127) / 128, block_cols = (w.desc.cols + 127) / 128;
    return scales.empty() ? v : v * scales[static_cast<std::size_t>((index * block_rows + row / 128) * block_cols + k / 128)];
  }
};
}  // namespace

TEST_CASE("float matrices unpack to their source, range by range") {
  for (DType type : kTypes)
    for (Dims d : kDims) {
      const Weights weights(type, d, false);
      const PackedMatrix& w = weights.w;
      const cpu::PackedFormat& f = *cpu::float_packed_format(type);
      CHECK(w.stride % 64 == 0);
      std::vector<std::byte> back(weights.source.size() / 2);
      const std::size_t row = back.size() / static_cast<std::size_t>(d.rows);
      f.unpack(w.desc, 0, d.rows, w.data + w.stride, back.data());
      CHECK(std::memcmp(back.data(), weights.source.data() + back.size(), back.size()) == 0);
      if (d.rows <= kStrip) continue;
      std::vector<std::byte> part(static_cast<std::size_t>(d.rows - kStrip) * row);
      f.unpack(w.desc, kStrip, d.rows, w.data + w.stride, part.data());
      CHECK(std::memcmp(part.data(), back.data() + kStrip * row, part.size()) == 0);
    }
  CHECK(cpu::float_packed_format(DType::q8_0) == nullptr);
  CHECK(cpu::float_kernel(DType::i8, Isa::generic) == nullptr);
}

TEST_CASE("whole strips take no more than the source") {
  const MatrixDesc desc = {"w", DType::f8_e4m3, 1, 64, 640};
  CHECK(cpu::float_packed_format(DType::f8_e4m3)->matrix_bytes(desc) == 64 * 640);
}

TEST_CASE("every kernel gives the canonical sum: one accumulator, k ascending, fma") {
  for (DType type : kTypes)
    for (Dims d : kDims)
      for (bool scaled : {false, true}) {
        if (scaled && type != DType::f8_e4m3) continue;
        const Weights weights(type, d, scaled);
        const std::int64_t strips = (d.rows + kStrip - 1) / kStrip, stride = row_stride(d.cols), most = 29;
        test::Aligned x_memory(static_cast<std::size_t>(most * stride) * 4, 0xff);
        float* x = x_memory.as<float>();
        for (std::int64_t r = 0; r < most; ++r) {
          const auto row = test::normal(static_cast<std::size_t>(d.cols), static_cast<std::uint32_t>(100 + r));
          std::copy(row.begin(), row.end(), x + r * stride);
        }
        // rows in an order of their own: j -> (7 j) mod 29
        std::vector<std::int32_t> rows;
        for (std::int64_t j = 0; j < most; ++j) rows.push_back(static_cast<std::int32_t>(7 * j % most));
        std::vector<float> want(static_cast<std::size_t>(most * d.rows));
        for (std::int64_t j = 0; j < most; ++j)
          for (std::int64_t r = 0; r < d.rows; ++r) {
            float acc = 0;
            for (std::int64_t k = 0; k < d.cols; ++k)
              acc = std::fma(weights.value(1, r, k), x[rows[static_cast<std::size_t>(j)] * stride + k], acc);
            want[static_cast<std::size_t>(j * d.rows + r)] = acc;
          }
        const cpu::Activations activations = {.form = cpu::Form::f32, .cols = d.cols, .f32 = x, .f32_stride = stride};
        for (Isa isa : test::isas())
          for (std::int64_t m : {1, 2, 3, 4, 5, 6, 11, 12, 13, 24, 29}) {
            const cpu::MatmulKernel& kernel = *cpu::float_kernel(type, isa);
            test::Aligned scratch(kernel.scratch_bytes(weights.w.desc), 0xff);
            int wrong = 0;
            for (std::int64_t begin = 0; begin < strips;) {
              const std::int64_t end = std::min(strips, begin + 1 + (begin + m) % 4), ld = (end - begin) * 16;
              test::Aligned out(static_cast<std::size_t>(m * ld) * 4, 0xff);
              kernel.run({.w = &weights.w,
                          .index = 1,
                          .strip_begin = begin,
                          .strip_end = end,
                          .x = &activations,
                          .rows = rows.data(),
                          .m = m,
                          .out = out.as<float>(),
                          .ld = ld,
                          .scratch = scratch.data()});
              for (std::int64_t j = 0; j < m; ++j)
                for (std::int64_t r = begin * 16; r < end * 16; ++r) {
                  const float expected = r < d.rows ? want[static_cast<std::size_t>(j * d.rows + r)] : 0.0f;
                  wrong += out.as<float>()[j * ld + r - begin * 16] != expected;
                }
              begin = end;
            }
            INFO(format(type).name << " " << d.rows << "x" << d.cols << " " << simd::isa_name(isa) << " m " << m);
            CHECK(wrong == 0);
          }
      }
}

TEST_CASE("a strip product over pieces of k is the whole product, and decoded strips are exact") {
  const Weights weights(DType::f8_e4m3, {40, 300}, true);
  const cpu::PackedFormat& f = *cpu::float_packed_format(DType::f8_e4m3);
  std::vector<float> strip(300 * 16);
  f.decode_strip(weights.w, 1, 2, 0, 130, strip.data());
  f.decode_strip(weights.w, 1, 2, 130, 300, strip.data() + 130 * 16);
  for (std::int64_t k = 0; k < 300; ++k)
    for (std::int64_t r = 0; r < 16; ++r)
      REQUIRE(strip[static_cast<std::size_t>(k * 16 + r)] == (32 + r < 40 ? weights.value(1, 32 + r, k) : 0.0f));

  test::Aligned x(7 * 304 * 4);
  const auto values = test::normal(7 * 304, 9);
  std::copy(values.begin(), values.end(), x.as<float>());
  const cpu::Activations activations = {.form = cpu::Form::f32, .cols = 300, .f32 = x.as<float>(), .f32_stride = 304};
  test::Aligned whole(7 * 16 * 4), pieces(7 * 16 * 4);
  for (Isa isa : test::isas()) {
    cpu::strip_product(Isa::generic)(strip.data(), 0, 300, activations, nullptr, 7, whole.as<float>(), 16, true);
    cpu::strip_product(isa)(strip.data(), 0, 130, activations, nullptr, 7, pieces.as<float>(), 16, true);
    cpu::strip_product(isa)(strip.data() + 130 * 16, 130, 300, activations, nullptr, 7, pieces.as<float>(), 16, false);
    CHECK(std::memcmp(whole.data(), pieces.data(), 7 * 16 * 4) == 0);
  }
}
