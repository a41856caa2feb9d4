#include "lib/session/stop_strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dsv31/error.h"

namespace dsv31::inline v1::session {

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  if (stops_.size() > 64)
    throw Error(Code::argument, "generate.stop", fmt::format("got {} strings, expected at most 64", stops_.size()));
  for (std::size_t i = 0; i < stops_.size(); ++i)
    if (stops_[i].empty() || stops_[i].size() > 4096)
      throw Error(Code::argument, "generate.stop",
                  fmt::format("got a string of {} bytes at index {}, expected 1 to 4096", stops_[i].size(), i));
}

std::string StopStrings::push(std::string_view piece) {
  if (found_) return {};
  if (stops_.empty()) return std::string(piece);
  held_ += piece;
  std::size_t first = std::string::npos;
  for (const std::string& s : stops_) first = std::min(first, held_.find(s));
  if (first != std::string::npos) {
    found_ = true;
    std::string out = held_.substr(0, first);
    held_.clear();
    return out;
  }
  // The longest end of the text that begins a stop string stays.
  std::size_t keep = 0;
  for (const std::string& s : stops_)
    for (std::size_t n = std::min(s.size() - 1, held_.size()); n > keep; --n)
      if (held_.compare(held_.size() - n, n, s, 0, n) == 0) keep = n;
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return out;
}

std::string StopStrings::finish() { return std::exchange(held_, {}); }

}  // namespace dsv31::inline v1::session
