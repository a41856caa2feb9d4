// The table of formats: look-up, sizes, names.
#include <cstdint>
#include <limits>

#include "dsv31/error.h"
#include "dsv31/quant.h"
#include "tests/catch.h"

using namespace dsv31;

TEST_CASE("every format is found by its DType, ggml id and safetensors name") {
  REQUIRE(formats().size() == static_cast<std::size_t>(kDTypeCount));
  for (const FormatInfo& f : formats()) {
    INFO(f.name);
    CHECK(&format(f.type) == &f);
    if (f.ggml_id >= 0) {
      CHECK(format_by_ggml_id(f.ggml_id) == &f);
      CHECK(ggml_type_name(f.ggml_id) == f.name);
    }
    if (!f.safetensors.empty()) CHECK(format_by_safetensors(f.safetensors) == &f);
    if (f.weight) CHECK(f.decode != nullptr);
  }
  CHECK(format_by_ggml_id(12)->type == DType::q4_k);
  CHECK(format_by_ggml_id(39)->type == DType::mxfp4);
  CHECK(format_by_safetensors("F8_E4M3")->type == DType::f8_e4m3);
}

TEST_CASE("unknown ids and names give null, known but unread ids have a name") {
  for (std::int64_t id : {std::int64_t{-1}, std::int64_t{4}, std::int64_t{9}, std::int64_t{16}, std::int64_t{40},
                          std::int64_t{1000}, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()})
    CHECK(format_by_ggml_id(id) == nullptr);
  CHECK(format_by_safetensors("") == nullptr);
  CHECK(format_by_safetensors("f32") == nullptr);
  CHECK(ggml_type_name(16) == "IQ2_XXS");
  CHECK(ggml_type_name(29) == "IQ1_M");
  CHECK(ggml_type_name(33) == "Q4_0_8_8");
  CHECK(ggml_type_name(34) == "TQ1_0");
  CHECK(ggml_type_name(38) == "IQ4_NL_8_8");
  CHECK(ggml_type_name(40) == "NVFP4");
  CHECK(ggml_type_name(42) == "Q2_0");
  CHECK(ggml_type_name(43).empty());
  CHECK(ggml_type_name(-1).empty());
}

TEST_CASE("format_bytes counts blocks and checks its product") {
  CHECK(format_bytes(DType::q4_k, 512) == 288);
  CHECK(format_bytes(DType::q8_0, 0) == 0);
  CHECK(format_bytes(DType::bf16, 3) == 6);
  auto code_of = [](DType type, std::int64_t n) {
    try {
      format_bytes(type, n);
    } catch (const Error& e) {
      return e.code();
    }
    return Code{};
  };
  CHECK(code_of(DType::q4_k, 255) == Code::argument);
  CHECK(code_of(DType::f32, -4) == Code::argument);
  CHECK(code_of(DType::f64, std::int64_t{1} << 60) == Code::limit);
  CHECK(code_of(DType::q8_0, std::numeric_limits<std::int64_t>::max() / 32 * 32) == Code::limit);
}
