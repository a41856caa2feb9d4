// Products of float weights through oneDNN, for relaxed numerics. Only in builds with DSV31_ONEDNN.
#pragma once

#include "backends/cpu/matmul.h"

namespace dsv31::inline v1::cpu {

// The table of float_kernels() with oneDNN's products where relaxed numerics ask for them.
const KernelTable& onednn_kernels();

}  // namespace dsv31::inline v1::cpu
