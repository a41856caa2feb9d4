#define DSV31_ISA_AVX512
#include "backends/cpu/attention_lanes.h"
#include "backends/cpu/index_lanes.h"
#include "backends/cpu/rope_lanes.h"

namespace dsv31::inline v1::cpu {

const AttentionKernels attention_avx512{.chunk = avx512::chunk,
                                        .merge = avx512::merge,
                                        .finish = avx512::finish,
                                        .angles = avx512::angles,
                                        .turn = avx512::turn,
                                        .cache = avx512::cache,
                                        .turn_block = avx512::turn_block,
                                        .widen_block = avx512::widen_block,
                                        .product = avx512::block_product,
                                        .index = avx512::index,
                                        .layer_norm = avx512::layer_norm};

}  // namespace dsv31::inline v1::cpu
