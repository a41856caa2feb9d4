// First stage of reading tokenizer.json: the two large members, model.vocab and model.merges, go straight into arenas as they are
// read; everything else becomes a small tree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/io/json.h"
#include "lib/io/json_events.h"

namespace dsv31::inline v1::text {

struct RawTokenizerJson {
  struct Entry {
    std::size_t begin = 0, bytes = 0;  // in texts
    std::int64_t id = 0;
  };
  struct Pair {
    std::size_t begin = 0, left = 0, right = 0;  // in texts: left bytes, then right bytes
  };

  io::Json root;   // all members of the file but the model
  io::Json model;  // all members of the model but vocab and merges
  std::string texts;
  std::vector<Entry> vocab;  // as listed
  std::vector<Pair> merges;  // by rank
  bool has_vocab = false;

  std::string_view text(const Entry& e) const noexcept { return std::string_view(texts).substr(e.begin, e.bytes); }
};

RawTokenizerJson read_tokenizer_json(std::string_view json);

}  // namespace dsv31::inline v1::text
