// A conversation as the fixtures write it: messages, tools, kwargs, tokens, and the prompt or the error that is wanted.
#pragma once

#include <string>
#include <string_view>

#include "dsv31/chat.h"
#include "lib/io/json.h"

namespace dsv31::text_test {

std::string read_file(const std::string& path);
std::string to_json(const io::Json& json);
// Renders the row with `source`: "ok: PROMPT" or "error: MESSAGE".
std::string render_row(std::string_view source, const io::Json& row);
// The neighbourhood of the first byte where they differ, for messages of failing tests.
std::string around_difference(std::string_view text, std::string_view other);

}  // namespace dsv31::text_test
