// Messages, tools and variables as values of the template interpreter.
#pragma once

#include <string_view>
#include <vector>

#include "dsv31/chat.h"
#include "lib/io/json.h"
#include "lib/text/jinja_value.h"

namespace dsv31::inline v1::text {

// Strings in it are data unless `trusted`.
jinja::Value value_of(const io::Json& json, bool trusted);

// Messages in the form of OpenAI's API: dicts with role, content and what else is set. `arguments` of a tool call is the parsed
// object, which is what most templates expect; where a template wants a string instead (it adds, joins or prints it), the object
// stands for its own JSON text, byte for byte, so that it is never encoded twice.
jinja::Value messages_value(const std::vector<Message>& messages);

// The same from JSON, as it stands; throws argument where it is no array of objects.
jinja::Value messages_value(const io::Json& json);

}  // namespace dsv31::inline v1::text
