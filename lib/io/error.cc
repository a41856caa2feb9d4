#include "dsv31/error.h"

#include <algorithm>
#include <cstring>

namespace dsv31::inline v1 {

std::string_view to_string(Code code) noexcept {
  switch (code) {
    case Code::io:
      return "io";
    case Code::format:
      return "format";
    case Code::limit:
      return "limit";
    case Code::unsupported:
      return "unsupported";
    case Code::mismatch:
      return "mismatch";
    case Code::argument:
      return "argument";
    case Code::not_found:
      return "not_found";
    case Code::no_memory:
      return "no_memory";
    case Code::busy:
      return "busy";
    case Code::cancelled:
      return "cancelled";
    case Code::timeout:
      return "timeout";
    case Code::backend:
      return "backend";
    case Code::peer:
      return "peer";
  }
  return "unknown";
}

Error::Error(Code code, std::string_view where, std::string_view what) noexcept : code_(code) {
  std::size_t n = 0;
  auto put = [&](std::string_view s) {
    std::size_t k = std::min(s.size(), sizeof message_ - 1 - n);
    while (k < s.size() && k > 0 && (static_cast<unsigned char>(s[k]) & 0xC0) == 0x80) --k;  // never half a character
    std::memcpy(message_ + n, s.data(), k);
    n += k;
  };
  put("[");
  put(where.substr(0, 200));
  put("] ");
  put(what);
  message_[n] = 0;
}

Error::~Error() = default;

}  // namespace dsv31::inline v1
