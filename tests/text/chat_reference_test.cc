// Templates of real models against prompts that jinja2 rendered (tests/templates/render_reference.py), byte for byte.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "dsv31/chat.h"
#include "lib/io/json.h"
#include "tests/catch.h"
#include "tests/text/chat_cases.h"

using namespace dsv31;

namespace {

struct Tally {
  int cases = 0, equal = 0;
};

}  // namespace

TEST_CASE("templates of real models render as jinja2 renders them", "[reference]") {
  const char* chosen = std::getenv("DSV31_TEST_TEMPLATES");  // another folder than the configured one
  const std::string folder = chosen ? chosen : DSV31_TEST_TEMPLATES;
  const io::Json rows = io::parse_json(text_test::read_file(folder + "/references.json"), "references.json",
                                       {.max_depth = 64, .max_bytes = std::size_t{1} << 30, .max_values = 100'000'000});
  std::map<std::string, Tally> tallies;
  int templates_equal = 0;
  for (const io::Json& row : rows.as_array()) {
    const std::string name = row.get_string("template");
    const std::string source = row.has("source") ? row.get_string("source") : text_test::read_file(folder + "/" + name);
    const std::string got = text_test::render_row(source, row);
    const bool wants_error = row.has("error");
    const bool equal = wants_error ? got.starts_with("error: ") : got == "ok: " + row.get_string("prompt");
    Tally& tally = tallies[name];
    ++tally.cases;
    if (equal) {
      ++tally.equal;
    } else {
      UNSCOPED_INFO(name << " / " << row.get_string("case") << "\n"
                         << "  wanted "
                         << (wants_error ? row.get_string("error") : text_test::around_difference(row.get_string("prompt"), got))
                         << "\n  got    " << text_test::around_difference(got, "ok: " + row.string_or("prompt", "")));
    }
  }
  for (const auto& [name, tally] : tallies) templates_equal += tally.cases == tally.equal;
  INFO(templates_equal << " of " << tallies.size() << " templates equal in every conversation");
  CHECK(static_cast<std::size_t>(templates_equal) == tallies.size());
}
