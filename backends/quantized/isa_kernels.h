// The entry points of the kernels of each instruction set. Plain data and functions only: files compiled for an instruction set
// include this.
#pragma once

#include "backends/cpu/matmul.h"

namespace dsv31::inline v1::quantized {

namespace generic {
void matmul(const cpu::MatmulArgs& args);  // any format of layout.h
}
// One format each; defined for the formats of layout.h.
namespace avx2 {
template <DType kType>
void matmul(const cpu::MatmulArgs& args);
}
namespace avx512 {
template <DType kType>
void matmul(const cpu::MatmulArgs& args);
}
namespace amx {
template <DType kType>
void matmul(const cpu::MatmulArgs& args);
}

// Bytes of scratch that any int8 kernel needs: the expanded K panels of a work item. The stride is no multiple of 4 KiB, so
// that they do not fall on the same cache sets.
inline constexpr std::int64_t kPanelStride = 18432 + 1088;
inline constexpr std::size_t kPanelScratch = cpu::kPanelStrips * kPanelStride;
inline constexpr std::size_t kTileColumns = 12352;  // and of AMX: 16 columns over the depth of a panel

// Zeros in place of the rows past the matrix's last one.
void clear_padding(const cpu::MatmulArgs& args);

}  // namespace dsv31::inline v1::quantized
