// The packed form: a bijection, no larger than its source, decoding to the values of lib/quant.
#include "dsv31/error.h"
#include "tests/backends/quantized/product_case.h"
#include "tests/catch.h"

using namespace quantized_test;

TEST_CASE("unpacking a packed matrix gives the source bytes") {
  for (const quantized::Layout& layout : quantized::kLayouts) {
    INFO(format(layout.type).name);
    const cpu::PackedFormat& f = *quantized::packed_format(layout.type);
    for (std::int64_t rows : {1, 15, 16, 17, 40}) {
      const std::int64_t cols = 3 * layout.block;
      const MatrixDesc desc{"w", layout.type, 1, rows, cols};
      Random random{static_cast<std::uint64_t>(rows)};
      std::vector<std::byte> src(static_cast<std::size_t>(format_bytes(layout.type, rows * cols))), back(src.size());
      for (std::byte& b : src) b = static_cast<std::byte>(random.next() & 255);
      Walled<std::byte> packed(f.matrix_bytes(desc));
      f.pack(desc, 0, rows, src.data(), packed.data());
      f.unpack(desc, 0, rows, packed.data(), back.data());
      CHECK(src == back);
    }
  }
}

TEST_CASE("strips may be packed and unpacked in any ranges") {
  for (const quantized::Layout& layout : quantized::kLayouts) {
    INFO(format(layout.type).name);
    const cpu::PackedFormat& f = *quantized::packed_format(layout.type);
    const MatrixDesc desc{"w", layout.type, 1, 50, layout.block};
    const std::vector<std::byte> src = random_rows(layout, 50, layout.block, 3);
    Walled<std::byte> whole(f.matrix_bytes(desc)), parts(f.matrix_bytes(desc));
    f.pack(desc, 0, 50, src.data(), whole.data());
    f.pack(desc, 32, 50, src.data() + 32 * layout.source_bytes, parts.data());
    f.pack(desc, 0, 32, src.data(), parts.data());
    CHECK(std::memcmp(whole.data(), parts.data(), whole.size()) == 0);
    std::vector<std::byte> back(static_cast<std::size_t>(16 * layout.source_bytes));
    f.unpack(desc, 16, 32, whole.data(), back.data());
    CHECK(std::memcmp(back.data(), src.data() + 16 * layout.source_bytes, back.size()) == 0);
  }
}

TEST_CASE("a packed matrix of whole strips takes at most 1.03 times its source, in multiples of 64 bytes") {
  for (const quantized::Layout& layout : quantized::kLayouts) {
    INFO(format(layout.type).name);
    for (std::int64_t cols : {256, 768, 7168}) {
      const std::size_t packed = quantized::packed_format(layout.type)->matrix_bytes({"w", layout.type, 1, 64, cols});
      CHECK(packed % 64 == 0);
      CHECK(static_cast<double>(packed) <= 1.03 * static_cast<double>(format_bytes(layout.type, 64 * cols)));
    }
  }
}

TEST_CASE("a decoded strip holds the values of the format, rows past the end are zero or minus zero") {
  for (const quantized::Layout& layout : quantized::kLayouts) {
    INFO(format(layout.type).name);
    const std::int64_t rows = 20, cols = 4 * layout.block, row_bytes = 4 * layout.source_bytes;
    const PackedCase w(layout, rows, cols, random_rows(layout, rows, cols, 7));
    std::vector<float> strip(static_cast<std::size_t>(2 * layout.block * 16)), row(static_cast<std::size_t>(cols));
    quantized::packed_format(layout.type)->decode_strip(w.packed, 0, 1, layout.block, 3 * layout.block, strip.data());
    int wrong = 0;
    for (std::int64_t r = 0; r < 16; ++r) {
      const bool real = 16 + r < rows;
      if (real) format(layout.type).decode(w.src.data() + (16 + r) * row_bytes, 4, row.data());
      for (std::int64_t k = 0; k < 2 * layout.block; ++k) {
        const float got = strip[static_cast<std::size_t>(16 * k + r)], want = row[static_cast<std::size_t>(layout.block + k)];
        wrong += real ? std::memcmp(&got, &want, sizeof got) != 0 : got != 0.0f;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("other types have no packed form, and shapes that do not fit are refused") {
  CHECK(quantized::packed_format(DType::f16) == nullptr);
  CHECK(quantized::kernel(DType::bf16, cpu::Isa::generic) == nullptr);
  CHECK(quantized::exact_kernel(DType::f32, cpu::Isa::generic) == nullptr);
  auto code_of = [](std::int64_t rows, std::int64_t cols) {
    try {
      quantized::packed_format(DType::q4_k)->matrix_bytes({"w", DType::q4_k, 1, rows, cols});
    } catch (const Error& e) {
      return e.code();
    }
    return Code{};
  };
  CHECK(code_of(16, 128) == Code::argument);
  CHECK(code_of(0, 256) == Code::argument);
  CHECK(code_of(INT64_MAX, 256) == Code::limit);
  CHECK(code_of(std::int64_t{1} << 40, std::int64_t{1} << 40) == Code::limit);
}
