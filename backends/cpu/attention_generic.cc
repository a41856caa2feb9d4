#define DSV31_ISA_GENERIC
#include "backends/cpu/attention_lanes.h"
#include "backends/cpu/index_lanes.h"
#include "backends/cpu/rope_lanes.h"

namespace dsv31::inline v1::cpu {

const AttentionKernels attention_generic{.chunk = generic::chunk,
                                         .merge = generic::merge,
                                         .finish = generic::finish,
                                         .angles = generic::angles,
                                         .turn = generic::turn,
                                         .cache = generic::cache,
                                         .turn_block = generic::turn_block,
                                         .widen_block = generic::widen_block,
                                         .product = generic::block_product,
                                         .index = generic::index,
                                         .layer_norm = generic::layer_norm};

}  // namespace dsv31::inline v1::cpu
