// A failing call as a claim: which code, and which field or tensor the message names.
#pragma once

#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>

#include "dsv31/error.h"
#include "tests/catch.h"

namespace dsv31::test {

// Text that builders put into values; no message may repeat it.
inline constexpr std::string_view kCanary = "CANARY-5d1";

template <class F>
void expect_error(Code code, std::initializer_list<std::string_view> parts, const F& call) {
  std::string message = "nothing was thrown";
  Code got{};
  try {
    call();
  } catch (const Error& e) {
    message = e.what();
    got = e.code();
  }
  INFO(message);
  CHECK(std::string(to_string(got)) == std::string(to_string(code)));
  for (const std::string_view part : parts) {
    INFO("expected to find: " << part);
    CHECK(message.find(part) != std::string::npos);
  }
  CHECK(message.front() == '[');
  CHECK(message.size() < 512);
  CHECK(message.find(kCanary) == std::string::npos);
}

}  // namespace dsv31::test
