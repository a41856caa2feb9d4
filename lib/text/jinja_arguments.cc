#include <fmt/format.h>

#include "lib/text/jinja_natives.h"

namespace dsv31::inline v1::text::jinja {

const Value* Arguments::get(std::size_t index, std::string_view name) {
  const Value* found = nullptr;
  if (index < positional_.size()) {
    found = &positional_[index];
    positions_taken_ = std::max(positions_taken_, index + 1);
  }
  if (name.empty()) return found;
  for (std::size_t i = 0; i < named_.size(); ++i) {
    if (named_[i].first != name) continue;
    if (found) refuse(fmt::format("got the argument {} of {} twice, expected it once", name, callee_));
    if (i < 64) names_taken_ |= std::uint64_t{1} << i;
    found = &named_[i].second;
  }
  return found;
}

const Value& Arguments::need(std::size_t index, std::string_view name) {
  const Value* v = get(index, name);
  if (!v) refuse(fmt::format("got no argument {} of {}, expected {} at least", name.empty() ? "" : name, callee_, index + 1));
  return *v;
}

bool Arguments::flag(std::size_t index, std::string_view name, bool absent) {
  const Value* v = get(index, name);
  return v ? truth(*v) : absent;
}

std::int64_t Arguments::whole(std::size_t index, std::string_view name, std::int64_t absent) {
  const Value* v = get(index, name);
  if (!v) return absent;
  if (!v->is_whole())
    refuse(fmt::format("got a {} as argument {} of {}, expected an integer", type_name(*v), index + 1, callee_));
  return v->as_int();
}

std::int64_t Arguments::need_whole(std::size_t index, std::string_view name) {
  need(index, name);
  return whole(index, name, 0);
}

void Arguments::done() const {
  if (positions_taken_ < positional_.size()) {
    refuse(fmt::format("got {} arguments for {}, expected at most {}", positional_.size(), callee_, positions_taken_));
  }
  for (std::size_t i = 0; i < named_.size(); ++i) {
    if (i >= 64 || !(names_taken_ >> i & 1))
      refuse(fmt::format("got an unknown named argument for {}, expected its own", callee_));
  }
}

}  // namespace dsv31::inline v1::text::jinja
