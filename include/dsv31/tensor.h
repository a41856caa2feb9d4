// Element types, shapes and read-only views. Part of the interface for authors of backends; not a stable ABI.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "dsv31/export.h"

namespace dsv31::inline v1 {

// Storage types of weights and caches. The block formats are those of ggml; their layouts stand in lib/quant.
enum class DType : std::uint8_t {
  f32,
  f16,
  bf16,
  f64,
  f8_e4m3,
  f8_e5m2,
  f8_e8m0,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  boolean,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  mxfp4,
};
inline constexpr int kDTypeCount = static_cast<int>(DType::mxfp4) + 1;

// Up to four dimensions, most significant first: the last one is contiguous in memory.
struct Shape {
  std::array<std::int64_t, 4> dim{1, 1, 1, 1};
  int rank = 0;

  constexpr Shape() = default;
  template <class... D>
  constexpr explicit Shape(D... d) : dim{static_cast<std::int64_t>(d)...}, rank(sizeof...(d)) {
    for (int i = rank; i < 4; ++i) dim[static_cast<std::size_t>(i)] = 1;
  }
  constexpr std::int64_t operator[](int i) const { return dim[static_cast<std::size_t>(i)]; }
  constexpr bool operator==(const Shape& o) const {
    if (rank != o.rank) return false;
    for (int i = 0; i < rank; ++i)
      if ((*this)[i] != o[i]) return false;
    return true;
  }
};

// A weight matrix, or a stack of `count` equal ones (the experts of a layer, the heads of an absorbed projection), as the
// backends see it. y (rows) = W (rows, cols) x (cols).
struct MatrixDesc {
  std::string_view name;    // of the first tensor it came from; outlives the model
  DType type = DType::f32;  // of the source, which is also what the packed form holds
  std::int64_t count = 1;   // n_routed_experts, num_attention_heads, or 1
  std::int64_t rows = 0;    // out features
  std::int64_t cols = 0;    // in features; a multiple of the type's block
};

}  // namespace dsv31::inline v1
