// The table of op cases: every op, every weight format, and the shapes where kernels break (odd widths, tails, one row, borders
// of cache blocks and of the 256 keys of a partial softmax).
#pragma once

#include "tests/backends/conformance/op_case.h"

namespace conformance {

void add_linear_cases(std::vector<OpCase>& cases);
void add_dense_cases(std::vector<OpCase>& cases);      // Embed, GatedFfn, Head
void add_attention_cases(std::vector<OpCase>& cases);  // Angles, RopeCache, Attention
void add_mla_cases(std::vector<OpCase>& cases);
void add_sparse_cases(std::vector<OpCase>& cases);  // SparseIndex, MlaAttention over selected keys
void add_expert_cases(std::vector<OpCase>& cases);  // Gate, Experts

std::vector<OpCase> all_cases();

}  // namespace conformance
