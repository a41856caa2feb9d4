// The normalizer, pre_tokenizer, post_processor and decoder of tokenizer.json.
#pragma once

#include <string_view>

#include "lib/io/json.h"
#include "lib/text/vocab_data.h"

namespace dsv31::inline v1::text {

class TokenizerJsonSteps {
 public:
  // `to` has its model, tokens and merges.
  TokenizerJsonSteps(const io::Json& root, VocabData& to) : root_(root), v_(to) {}
  void read();

  // Whether token texts are spelled in the byte alphabet.
  static bool is_byte_level(const io::Json& root);

 private:
  void normalizer(const io::Json& step, int depth);
  void pre_tokenizer(const io::Json& step, int depth);
  void post_processor(const io::Json& step, int depth);
  void decoder(const io::Json& step, int depth);
  void byte_level(const io::Json& step);
  void metaspace(const io::Json& step);
  void split(const io::Json& step);
  void settle_space_mark();

  const io::Json& root_;
  VocabData& v_;
  bool replaces_space_ = false, prepends_mark_ = false, metaspace_ = false, after_byte_level_ = false;
};

}  // namespace dsv31::inline v1::text
