// The one exception type of the library.
//
// Every failing call throws dsv31::Error; nothing is changed by a call that threw. The message has the form
// "[where] got ..., expected ..." and is at most 511 bytes. It never echoes bytes of a file or of a prompt, so it is safe to log.
#pragma once

#include <exception>
#include <string_view>

#include "dsv31/export.h"

namespace dsv31::inline v1 {

enum class Code : int {
  io = 1,       // the file, reader or device did not deliver its bytes
  format,       // bytes from outside break the rules of their format
  limit,        // a documented limit would be passed (size, depth, fuel, context length)
  unsupported,  // well-formed, but not a thing this build can do
  mismatch,     // two well-formed things do not fit together (tensor against config, session against model)
  argument,     // the caller passed a value outside its documented range
  not_found,    // a named file, tensor, token or backend does not exist
  no_memory,    // an allocation failed or the memory budget would be passed
  busy,         // the object is in use and the call would have to wait for ever
  cancelled,    // the caller's CancelToken was set
  timeout,      // a deadline passed
  backend,      // a backend failed or produced values that are not finite
  peer,         // another process or machine broke the protocol
};

// The name of a code as it is written above, "format" for Code::format.
DSV31_API std::string_view to_string(Code code) noexcept;

class DSV31_API Error : public std::exception {
 public:
  // `where` is the surface that failed ("gguf", "session.append"); `what` continues it. Longer texts are cut at a character
  // border.
  Error(Code code, std::string_view where, std::string_view what) noexcept;
  Error(const Error&) noexcept = default;
  Error& operator=(const Error&) noexcept = default;
  ~Error() override;

  Code code() const noexcept { return code_; }
  const char* what() const noexcept override { return message_; }

 private:
  Code code_;
  char message_[512];
};

}  // namespace dsv31::inline v1
