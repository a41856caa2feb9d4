// The normalizer of tokenizer.json: rewrites text before it is cut into pieces. Works on valid UTF-8; bytes that are none pass
// untouched, and what stands on both sides of them is normalised as though it stood alone.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/text/pattern.h"
#include "lib/text/vocab_data.h"

namespace dsv31::inline v1::text {

class Normalizer {
 public:
  explicit Normalizer(const std::vector<NormalizerStep>& steps);
  bool empty() const noexcept { return steps_.empty(); }
  // The normalised text: `text` itself where nothing changes it, else a view of `storage`.
  std::string_view apply(std::string_view text, std::string& storage) const;

 private:
  struct Step {
    NormalizerStep step;
    std::unique_ptr<Pattern> pattern;
  };
  void apply_step(const Step& step, std::string_view text, std::string& out) const;

  std::vector<Step> steps_;
};

// Canonical or compatibility decomposition, with composition where `compose`, appended to `out`; text is valid UTF-8.
// n log n: runs of marks are sorted by combining class, however long they are.
void append_normal_form(std::string_view text, bool compose, bool compatibility, std::string& out);

}  // namespace dsv31::inline v1::text
