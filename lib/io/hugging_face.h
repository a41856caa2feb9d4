// A Hugging Face folder: config.json, generation_config.json, tokenizer_config.json, tokenizer.json, chat_template.jinja, and the
// weights as model.safetensors or as the files that model.safetensors.index.json names.
#pragma once

#include <memory>
#include <string>

#include "lib/io/bytes.h"
#include "lib/io/checkpoint.h"

namespace dsv31::inline v1::io {

// `weights` is one .safetensors file already opened (its neighbours in `folder` are optional then), or null for the folder's own.
Checkpoint open_hugging_face(const Folder* folder, std::shared_ptr<const Reader> weights, const OpenOptions& options);

// config.json and the rest, all optional, of a folder.
void read_side_files(const Folder& folder, const OpenLimits& limits, Checkpoint& to);

// Every F8_E4M3 matrix X.weight (M, N) has a sibling X.weight_scale_inv (ceil(M / block), ceil(N / block)) of F32 or F8_E8M0, in
// any file. block is config.json's quantization_config.weight_block_size, 128 where absent. Throws mismatch naming the tensor.
void check_fp8_scales(const Checkpoint& checkpoint);

}  // namespace dsv31::inline v1::io
