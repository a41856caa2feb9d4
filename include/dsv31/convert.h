// Conversions of a model's files from one number format to another. The result is a folder like the one that was read.
//
// convert() may be called from any thread; it uses no runtime, one thread and a few megabytes beside one band of rows.
#pragma once

#include <cstdint>
#include <string>

#include "dsv31/error.h"
#include "dsv31/export.h"
#include "dsv31/runtime.h"

namespace dsv31::inline v1 {

enum class WeightFormat {
  // Matrices of the projections in F8_E4M3 with one float32 scale (weight_scale_inv) a block of 128 x 128, absmax / 448, as
  // DeepSeek ships V3: half the bytes of bfloat16. Embeddings, head, norms, the router with its bias, and the layer that joins
  // state and embedding for drafts (eh_proj) stay as they are. Each value goes to the nearest code, ties to the even one.
  fp8,
  // The reverse: every F8_E4M3 matrix times its scales, rounded to bfloat16 (ties to even). The rest stays as it is.
  bf16,
};

struct ConvertOptions {
  WeightFormat to = WeightFormat::fp8;
  std::uint64_t shard_bytes = std::uint64_t{5} << 30;  // a larger result is split into files of about this size, with an index
  Progress progress{};                                 // Stage::read_metadata, then Stage::read_weights
  const CancelToken* cancel = nullptr;
};

struct ConvertReport {
  std::int64_t tensors = 0;                           // written, scales not counted
  std::int64_t converted = 0;                         // of them, in the new format
  std::uint64_t source_bytes = 0, written_bytes = 0;  // of tensors, scales included
  double nmse = 0;                                    // of the converted values: sum of squared differences over sum of squares
};

// Reads the Hugging Face folder `in` and makes the folder `out`, which must be new or empty; its parent must exist. Texts beside
// the weights (tokenizer, template, generation config, licence) are copied. config.json, with its quantization_config set or
// removed, is written last: until then nothing can take the folder for a model. A call that throws leaves nothing behind.
// Throws argument (in is no folder; out holds files), unsupported (to fp8: the weights are quantised already), format (a weight
// that is not finite), what Model::open throws for a broken folder, io, cancelled.
DSV31_API ConvertReport convert(const std::string& in, const std::string& out, const ConvertOptions& options = {});

}  // namespace dsv31::inline v1
