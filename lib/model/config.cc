// Rules that join several numbers, and the choice between the two containers' readers.
#include "lib/model/config.h"

#include <fmt/format.h>

#include "dsv31/error.h"
#include "lib/io/bytes.h"

namespace dsv31::inline v1::model {

void require(bool rule, std::string_view where, std::string_view key, std::int64_t got, std::string_view expected) {
  if (!rule) throw Error(Code::format, where, fmt::format("{}: got {}, expected {}", io::quoted(key), got, expected));
}

}  // namespace dsv31::inline v1::model
