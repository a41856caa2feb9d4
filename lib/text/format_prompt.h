// A prompt under construction: bytes with their origin. Markers are trusted, what a message holds is data.
#pragma once

#include <string_view>
#include <utility>

#include "dsv31/chat.h"

namespace dsv31::inline v1::text {

class PromptWriter {
 public:
  PromptWriter& marker(std::string_view bytes) { return put(bytes, true); }
  PromptWriter& data(std::string_view bytes, bool trusted = false) { return put(bytes, trusted); }
  PromptText take() { return std::move(prompt_); }

 private:
  PromptWriter& put(std::string_view bytes, bool trusted) {
    const std::size_t begin = prompt_.text.size();
    prompt_.text += bytes;
    if (!trusted || bytes.empty()) return *this;
    if (!prompt_.trusted.empty() && prompt_.trusted.back().end == begin)
      prompt_.trusted.back().end = prompt_.text.size();
    else
      prompt_.trusted.push_back({begin, prompt_.text.size()});
    return *this;
  }
  PromptText prompt_;
};

}  // namespace dsv31::inline v1::text
