// The halves of a Qwen3 block, for the dense and the mixture-of-experts models.
#pragma once

#include "lib/model/assembly.h"

namespace dsv31::inline v1::model {

void qwen3_attention(Assembly& model, Scope& block, ValueId angles, ValueId x, std::int64_t layer);
void qwen3_feed_forward(Assembly& model, Scope& block, ValueId x);

}  // namespace dsv31::inline v1::model
