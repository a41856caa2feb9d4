// Values as text, exactly as Python prints them: str, repr and json.dumps.
//
// Bytes of strings keep their origin; what is made here (digits, quotes, braces) is data, so it can complete no control token.
#pragma once

#include <string>
#include <string_view>

#include "lib/text/jinja_budget.h"

namespace dsv31::inline v1::text::jinja {

std::string repr_float(double d);  // the shortest digits that read back, in Python's layout

void append_str(Budget& budget, Text& out, const Value& v);
void append_repr(Budget& budget, Text& out, const Value& v);
Text str(Budget& budget, const Value& v);  // str(v)

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool pretty = false;  // an indent is given
  Text indent;          // of one level
  Text item_separator{", ", false}, key_separator{": ", false};
};
void append_json(Budget& budget, Text& out, const Value& v, const JsonStyle& style);

// &, <, >, ' and " as entities.
Text escape_html(Budget& budget, const Text& text);

}  // namespace dsv31::inline v1::text::jinja
