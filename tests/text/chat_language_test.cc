// Small templates, one a feature of the language, against what jinja2 makes of them (tests/templates/language_reference.py).
#include "tests/catch.h"
#include "tests/text/chat_cases.h"

using namespace dsv31;

TEST_CASE("every feature of the template language does what jinja2 does", "[language]") {
  const io::Json all = io::parse_json(text_test::read_file(DSV31_TEST_DATA "/chat/language.json"), "language.json");
  int failed_as_wanted = 0;
  for (const io::Json& row : all.get_array("rows")) {
    const std::string& source = row.get_string("source");
    io::Json::Object conversation{{"messages", io::Json::Array{}},
                                  {"kwargs", *all.find("kwargs")},
                                  {"bos_token", "<s>"},
                                  {"eos_token", "</s>"},
                                  {"now", all.get_int("now")}};
    const std::string got = text_test::render_row(source, io::Json(conversation));
    INFO(source);
    if (row.has("error")) {
      INFO(row.get_string("error"));
      CHECK(got.substr(0, 7) == "error: ");
      ++failed_as_wanted;
    } else {
      CHECK(got == "ok: " + row.get_string("prompt"));
    }
  }
  CHECK(failed_as_wanted > 100);
}
