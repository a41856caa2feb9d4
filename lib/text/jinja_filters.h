// The filters on single values, for the table in jinja_filters_sequence.cc.
#pragma once

#include "lib/text/jinja_natives.h"

namespace dsv31::inline v1::text::jinja::filters {

Value trim(Context&, const Value&, Arguments&);
Value upper(Context&, const Value&, Arguments&);
Value lower(Context&, const Value&, Arguments&);
Value capitalize(Context&, const Value&, Arguments&);
Value title(Context&, const Value&, Arguments&);
Value replace(Context&, const Value&, Arguments&);
Value string(Context&, const Value&, Arguments&);
Value default_value(Context&, const Value&, Arguments&);
Value to_int(Context&, const Value&, Arguments&);
Value to_float(Context&, const Value&, Arguments&);
Value absolute(Context&, const Value&, Arguments&);
Value round(Context&, const Value&, Arguments&);
Value tojson(Context&, const Value&, Arguments&);
Value indent(Context&, const Value&, Arguments&);
Value safe(Context&, const Value&, Arguments&);
Value escape(Context&, const Value&, Arguments&);
Value force_escape(Context&, const Value&, Arguments&);
Value word_count(Context&, const Value&, Arguments&);
Value format(Context&, const Value&, Arguments&);
Value center(Context&, const Value&, Arguments&);
Value truncate(Context&, const Value&, Arguments&);
Value urlencode(Context&, const Value&, Arguments&);
Value attr(Context&, const Value&, Arguments&);

}  // namespace dsv31::inline v1::text::jinja::filters
