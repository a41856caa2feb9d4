// Stop strings over a stream of text that comes in pieces: what may still turn into a stop string is held back, what may not is
// let go at once. Matching is of bytes, across any borders of the pieces.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dsv31::inline v1::session {

class StopStrings {
 public:
  // Throws argument: more than 64 strings, an empty one, or one over 4096 bytes.
  explicit StopStrings(std::vector<std::string> stops);

  // Takes the next piece; returns the text that is free to go. When found() turns true, the text before the stop string has been
  // returned and everything from it on is dropped.
  std::string push(std::string_view piece);
  bool found() const noexcept { return found_; }
  // What is held back at the end of the stream.
  std::string finish();

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool found_ = false;
};

}  // namespace dsv31::inline v1::session
