#define DSV31_ISA_AVX2
#include "backends/cpu/attention_lanes.h"
#include "backends/cpu/index_lanes.h"
#include "backends/cpu/rope_lanes.h"

namespace dsv31::inline v1::cpu {

const AttentionKernels attention_avx2{.chunk = avx2::chunk,
                                      .merge = avx2::merge,
                                      .finish = avx2::finish,
                                      .angles = avx2::angles,
                                      .turn = avx2::turn,
                                      .cache = avx2::cache,
                                      .turn_block = avx2::turn_block,
                                      .widen_block = avx2::widen_block,
                                      .product = avx2::block_product,
                                      .index = avx2::index,
                                      .layer_norm = avx2::layer_norm};

}  // namespace dsv31::inline v1::cpu
