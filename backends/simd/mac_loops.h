// The loops of each instruction set.
#pragma once

#include "dsv31/mac_loop.h"

namespace dsv31::inline v1::simd {

namespace avx2 {
std::span<const MacLoop> mac_loops();
}
namespace avx512 {
std::span<const MacLoop> mac_loops();
}
namespace amx {
std::span<const MacLoop> mac_loops();
}

}  // namespace dsv31::inline v1::simd
