// JSON as a stream of events with the caps already applied: what both the Json builder and the safetensors header are made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "dsv31/error.h"
#include "lib/io/json.h"

namespace dsv31::inline v1::io {

// Strings may be moved from. A handler that throws ends the parse.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual void null() = 0;
  virtual void boolean(bool value) = 0;
  virtual void integer(std::int64_t value) = 0;
  virtual void unsigned_integer(std::uint64_t value) = 0;  // above the range of int64
  virtual void number(double value) = 0;
  virtual void string(std::string& value) = 0;
  virtual void key(std::string& name) = 0;
  virtual void start_object() = 0;
  virtual void end_object() = 0;
  virtual void start_array() = 0;
  virtual void end_array() = 0;

  std::size_t offset() const noexcept { return offset_; }  // of the byte after the last one that was read

 private:
  friend void parse_json_events(std::string_view, std::string_view, const JsonLimits&, JsonEvents&);
  std::size_t offset_ = 0;
};

// Applies max_depth, max_bytes and max_values; duplicate keys are the handler's business.
void parse_json_events(std::string_view text, std::string_view where, const JsonLimits& limits, JsonEvents& events);

}  // namespace dsv31::inline v1::io
