#include "lib/text/jinja_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace dsv31::inline v1::text::jinja {
namespace {

constexpr std::int64_t kCheckEvery = 1 << 14;  // steps between looks at the clock

}  // namespace

Budget::Budget(const ChatLimits& limits)
    : fuel_(limits.fuel),
      check_at_(limits.fuel - kCheckEvery),
      output_bytes_(limits.output_bytes),
      live_bytes_(limits.output_bytes > std::numeric_limits<std::size_t>::max() / 8
                      ? std::numeric_limits<std::size_t>::max()
                      : limits.output_bytes * 4 + (std::size_t{16} << 20)),
      milliseconds_(limits.milliseconds),
      deadline_(std::chrono::steady_clock::now() + std::chrono::milliseconds(limits.milliseconds)) {}

void Budget::check() {
  if (fuel_ < 0) refuse("got more evaluation steps than the limit of fuel, expected a template that ends earlier", Code::limit);
  if (std::chrono::steady_clock::now() > deadline_) {
    refuse(fmt::format("got no end within {} ms, expected a template that ends earlier", milliseconds_), Code::timeout);
  }
  check_at_ = std::max<std::int64_t>(fuel_ - kCheckEvery, 0);
}

void Budget::check_memory() const {
  if (meter_->live > live_bytes_) {
    refuse(fmt::format("got values of {} bytes, expected at most {}", meter_->live, live_bytes_), Code::limit);
  }
}

void Budget::room(std::size_t bytes) {
  if (bytes > output_bytes_)
    refuse(fmt::format("got a text of {} bytes, expected at most {}", bytes, output_bytes_), Code::limit);
  spend(static_cast<std::int64_t>(bytes / kCopiedPerStep));
}

void Budget::room(std::size_t count, std::size_t each) {
  if (each != 0 && count > output_bytes_ / each) {
    refuse(fmt::format("got a text of {} times {} bytes, expected at most {}", count, each, output_bytes_), Code::limit);
  }
  room(count * each);
}

Value Budget::text(Text text, bool markup) {
  room(text.size());
  Value v(Kind::string, std::make_shared<TextCell>(std::move(text), markup, meter_));
  check_memory();
  return v;
}

void Budget::check_depth(int depth) const {
  if (depth > kMaxValueDepth)
    refuse(fmt::format("got values nested {} deep, expected at most {}", depth, kMaxValueDepth), Code::limit);
}

Value Budget::list(std::vector<Value> items, Flavour flavour) {
  auto cell = std::make_shared<ListCell>();
  for (const Value& item : items) cell->depth = std::max(cell->depth, depth_of(item) + 1);
  check_depth(cell->depth);
  spend(static_cast<std::int64_t>(items.size()));
  cell->charged = sizeof(ListCell) + items.capacity() * sizeof(Value);
  cell->meter = meter_;
  meter_->live += cell->charged;
  cell->items = std::move(items);
  cell->flavour = flavour;
  check_memory();
  return {Kind::list, std::move(cell)};
}

Value Budget::dict(DictCell::Items items) {
  auto cell = std::make_shared<DictCell>();
  for (const auto& [key, value] : items) cell->depth = std::max({cell->depth, depth_of(value) + 1, depth_of(key) + 1});
  check_depth(cell->depth);
  spend(static_cast<std::int64_t>(items.size()));
  cell->charged = sizeof(DictCell) + items.capacity() * sizeof(items[0]);
  cell->meter = meter_;
  meter_->live += cell->charged;
  cell->items = std::move(items);
  check_memory();
  return {Kind::dict, std::move(cell)};
}

void Budget::put(DictCell::Items& items, Value key, Value value) {
  if (!hashable(key)) refuse(fmt::format("got a {} as a key, expected a hashable value", type_name(key)));
  for (auto& [k, v] : items) {
    if (equal(k, key)) {
      v = std::move(value);
      return;
    }
  }
  items.emplace_back(std::move(key), std::move(value));
}

}  // namespace dsv31::inline v1::text::jinja
