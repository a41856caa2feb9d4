// What one render may use: steps, time, bytes of one string, bytes of all live values. Every value of a render is made here, so
// that a hostile template meets its limit before the host meets an allocation failure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "dsv31/chat.h"
#include "lib/text/jinja_value.h"

namespace dsv31::inline v1::text::jinja {

class Budget {
 public:
  explicit Budget(const ChatLimits& limits);

  void spend(std::int64_t steps) {
    fuel_ -= steps;
    if (fuel_ < check_at_) check();
  }
  // Call before text of about this size is built: throws limit, and counts the copying.
  void room(std::size_t bytes);
  void room(std::size_t count, std::size_t each);  // of count * each bytes, which may wrap
  void grow(const Text& out, std::size_t more) {   // before `more` bytes are appended to out
    if (out.size() + more > output_bytes_) room(out.size() + more);
    spend(static_cast<std::int64_t>(more / kCopiedPerStep));
  }

  Value text(Text text, bool markup = false);
  Value text(std::string_view bytes) { return text(Text(bytes, false)); }
  Value list(std::vector<Value> items, Flavour flavour = Flavour::list);
  Value dict(DictCell::Items items);  // keys already distinct
  // Puts a pair in, replacing the value of an equal key as Python does.
  void put(DictCell::Items& items, Value key, Value value);
  void check_depth(int depth) const;

  std::int64_t& steps() noexcept { return steps_; }  // for equal() and less(); settle() spends them
  void settle() {
    spend(steps_);
    steps_ = 0;
  }
  bool equal(const Value& a, const Value& b) {
    const bool result = jinja::equal(a, b, steps_);
    settle();
    return result;
  }
  bool less(const Value& a, const Value& b) {
    const bool result = jinja::less(a, b, steps_);
    settle();
    return result;
  }
  std::size_t output_bytes() const noexcept { return output_bytes_; }

 private:
  void check();
  void check_memory() const;

  static constexpr std::size_t kCopiedPerStep = 64;  // bytes that cost one step

  std::int64_t fuel_, check_at_;
  std::int64_t steps_ = 0;
  std::size_t output_bytes_, live_bytes_;
  int milliseconds_;
  std::chrono::steady_clock::time_point deadline_;
  std::shared_ptr<Meter> meter_ = std::make_shared<Meter>();
};

}  // namespace dsv31::inline v1::text::jinja
