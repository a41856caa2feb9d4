// Products through oneDNN against a sum in double. Only in builds with DSV31_ONEDNN.
//
// How close: any order of adding K products in float32, each rounded, is within K * 2^-24 of the sum of their absolute values.
#include "backends/cpu/onednn.h"

#include <omp.h>

#include <cmath>
#include <filesystem>
#include <thread>

#include "dsv31/quant.h"
#include "tests/backends/cpu/rig.h"
#include "tests/catch.h"

using namespace dsv31;
using cpu::kStrip;
namespace fs = std::filesystem;

namespace {

struct Product {
  DType type;
  std::int64_t out_features, cols, m;
  bool gathered;
};

void check(const Product& p) {
  const simd::Isa isa = simd::best_isa();
  const cpu::MatmulKernel& kernel = *cpu::onednn_kernels().relaxed(p.type, isa);
  const cpu::PackedFormat& packing = *cpu::float_packed_format(p.type);
  const FormatInfo& f = format(p.type);
  PackedMatrix w{{"w", p.type, 1, p.out_features, p.cols}};
  w.stride = packing.matrix_bytes(w.desc);
  test::Aligned memory(w.stride, 0xff);
  const auto source = test::float_matrix(p.type, p.out_features * p.cols, 5, 1);
  packing.pack(w.desc, 0, p.out_features, source.data(), memory.data());
  w.data = memory.data();
  std::vector<float> weights(static_cast<std::size_t>(p.out_features * p.cols));
  f.decode(source.data(), p.out_features * p.cols, weights.data());

  const std::int64_t stride = row_stride(p.cols), most = p.m + 3;
  test::Aligned x_memory(static_cast<std::size_t>(most * stride) * 4, 0xff);
  float* x = x_memory.as<float>();
  for (std::int64_t r = 0; r < most; ++r) {
    const auto row = test::normal(static_cast<std::size_t>(p.cols), static_cast<std::uint32_t>(100 + r));
    std::copy(row.begin(), row.end(), x + r * stride);
  }
  std::vector<std::int32_t> rows;
  for (std::int64_t j = 0; j < p.m; ++j) rows.push_back(static_cast<std::int32_t>(p.gathered ? most - 1 - j : j));
  const cpu::Activations activations = {.form = cpu::Form::f32, .cols = p.cols, .f32 = x, .f32_stride = stride};

  int far = 0;
  test::Aligned scratch(kernel.scratch_bytes(w.desc), 0xff);
  for (std::int64_t begin = 0, strips = (p.out_features + kStrip - 1) / kStrip; begin < strips; begin += 3) {
    const std::int64_t end = std::min(strips, begin + 3), ld = 4 * kStrip;  // wider than what is written
    test::Aligned out(static_cast<std::size_t>(p.m * ld) * 4, 0xff);
    kernel.run({.w = &w,
                .strip_begin = begin,
                .strip_end = end,
                .x = &activations,
                .rows = p.gathered ? rows.data() : nullptr,
                .m = p.m,
                .out = out.as<float>(),
                .ld = ld,
                .scratch = scratch.data()});
    for (std::int64_t j = 0; j < p.m; ++j)
      for (std::int64_t r = begin * kStrip; r < end * kStrip; ++r) {
        double sum = 0, size = 0;
        for (std::int64_t k = 0; k < p.cols && r < p.out_features; ++k) {
          const double term = static_cast<double>(weights[static_cast<std::size_t>(r * p.cols + k)]) *
                              static_cast<double>(x[rows[static_cast<std::size_t>(j)] * stride + k]);
          sum += term;
          size += std::abs(term);
        }
        const double got = static_cast<double>(out.as<float>()[j * ld + r - begin * kStrip]);
        far += !(std::abs(got - sum) <= static_cast<double>(p.cols) * 0x1p-24 * size);
      }
  }
  INFO(f.name << " " << p.out_features << "x" << p.cols << " m " << p.m << (p.gathered ? " gathered" : ""));
  CHECK(far == 0);
}

}  // namespace

TEST_CASE("products through oneDNN are the sums within the rounding of their terms") {
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3})
    for (const std::int64_t m : {1, 31, 32, 131, 300})
      for (const bool gathered : {false, true}) {
        check({type, 70, 130, m, gathered});
        check({type, 16, 1100, m, gathered});
      }
}

TEST_CASE("a forced lesser instruction set keeps its own kernels") {
  for (const simd::Isa isa : test::isas())
    CHECK((cpu::onednn_kernels().relaxed(DType::f32, isa) != nullptr) == (isa == simd::best_isa()));
  CHECK(cpu::onednn_kernels().relaxed(DType::q8_0, simd::best_isa()) == nullptr);
}

TEST_CASE("the caller's setting of OpenMP comes back, and the product stays on the caller's thread") {
  std::thread([] {
    const auto threads = [] { return std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator()); };
    const auto before = threads();
    omp_set_num_threads(3);
    check({DType::f32, 64, 256, 128, false});
    CHECK(omp_get_max_threads() == 3);
    CHECK(threads() == before);  // OpenMP keeps its threads: one that had worked would still be there
  }).join();
}
