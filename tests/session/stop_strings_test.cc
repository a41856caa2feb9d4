#include "lib/session/stop_strings.h"

#include "dsv31/error.h"
#include "tests/catch.h"

using namespace dsv31;
using session::StopStrings;

TEST_CASE("a stop string is found however the text is cut") {
  const std::string text = "one two three</end>four";
  for (std::size_t i = 0; i <= text.size(); ++i)
    for (std::size_t j = i; j <= text.size(); ++j) {
      StopStrings stop({"</end>", "zzz"});
      std::string out = stop.push(text.substr(0, i));
      out += stop.push(text.substr(i, j - i));
      out += stop.push(text.substr(j));
      out += stop.finish();
      REQUIRE(stop.found());
      REQUIRE(out == "one two three");
    }
}

TEST_CASE("what cannot become a stop string is let go at once") {
  StopStrings stop({"ab", "bcd"});
  CHECK(stop.push("xa") == "x");  // "a" may become "ab"
  CHECK(stop.push("c") == "ac");
  CHECK(stop.push("bc") == "");  // may become "bcd"
  CHECK(stop.push("e") == "bce");
  CHECK(stop.push("zb") == "z");
  CHECK(stop.finish() == "b");
  CHECK_FALSE(stop.found());
}

TEST_CASE("the earliest of several stop strings wins, of those that begin together any") {
  StopStrings stop({"late", "earl"});
  CHECK(stop.push("so early, so late") == "so ");
  CHECK(stop.found());
  CHECK(stop.push("more") == "");
}

TEST_CASE("no stop strings: everything passes") {
  StopStrings stop({});
  CHECK(stop.push("abc") == "abc");
  CHECK(stop.finish() == "");
}

TEST_CASE("Q06 empty, oversized and too many stop strings are arguments") {
  auto code = [](std::vector<std::string> v) {
    try {
      StopStrings s(std::move(v));
    } catch (const Error& e) {
      CHECK(std::string(e.what()).find("[generate.stop]") == 0);
      return e.code();
    }
    return Code::io;
  };
  CHECK(code({""}) == Code::argument);
  CHECK(code({std::string(4097, 'x')}) == Code::argument);
  CHECK(code(std::vector<std::string>(65, "x")) == Code::argument);
  StopStrings fits(std::vector<std::string>(64, std::string(4096, 'x')));
  CHECK_FALSE(fits.found());
}
