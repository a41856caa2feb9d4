// The one checked-arithmetic module and the one bounded reader of every binary format.
//
// Peers were broken again and again by a size that wraps one step after the step that was checked. So no format does its own
// arithmetic on numbers from a file, and no length is believed before it is compared with the bytes that are left.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "dsv31/error.h"
#include "dsv31/runtime.h"

namespace dsv31::inline v1::io {

// What an error names: the surface ("gguf"), then the field or tensor.
struct Field {
  std::string_view where;
  std::string_view name;
  Code code = Code::format;  // of an overflow
};

std::uint64_t checked_add(std::uint64_t a, std::uint64_t b, const Field& field);
std::uint64_t checked_mul(std::uint64_t a, std::uint64_t b, const Field& field);
// The next multiple of a power of two.
std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment, const Field& field);

// A name from a file as an error shows it: in quotes, cut at 80 bytes, control bytes and broken UTF-8 replaced by '?'.
std::string quoted(std::string_view name);
bool valid_utf8(std::string_view text) noexcept;

// Called between work items; throws cancelled.
class Watch {
 public:
  Watch() = default;
  Watch(const Progress* progress, const CancelToken* cancel) : progress_(progress), cancel_(cancel) {}
  void check() const;
  void report(Stage stage, std::uint64_t done, std::uint64_t total) const;  // checks too

 private:
  const Progress* progress_ = nullptr;
  const CancelToken* cancel_ = nullptr;
};

// Sequential little-endian reads from a window of a Reader through a buffer. Every read names its field and is checked against
// the end first: format, with the byte offset.
class Cursor {
 public:
  Cursor(const Reader& reader, std::string_view where, std::uint64_t begin, std::uint64_t end, const Watch* watch = nullptr);

  std::uint64_t offset() const noexcept { return offset_; }
  std::uint64_t remaining() const noexcept { return end_ - offset_; }
  std::uint64_t reads() const noexcept { return reads_; }            // calls of Reader::read_at
  std::uint64_t bytes_read() const noexcept { return bytes_read_; }  // delivered by them

  std::uint8_t u8(std::string_view field) { return scalar<std::uint8_t>(field); }
  std::int8_t i8(std::string_view field) { return scalar<std::int8_t>(field); }
  std::uint16_t u16(std::string_view field) { return scalar<std::uint16_t>(field); }
  std::int16_t i16(std::string_view field) { return scalar<std::int16_t>(field); }
  std::uint32_t u32(std::string_view field) { return scalar<std::uint32_t>(field); }
  std::int32_t i32(std::string_view field) { return scalar<std::int32_t>(field); }
  std::uint64_t u64(std::string_view field) { return scalar<std::uint64_t>(field); }
  std::int64_t i64(std::string_view field) { return scalar<std::int64_t>(field); }
  float f32(std::string_view field) { return scalar<float>(field); }
  double f64(std::string_view field) { return scalar<double>(field); }

  // Throws format unless count * size bytes are left.
  void require(std::uint64_t count, std::uint64_t size, std::string_view field) const;
  void bytes(void* dst, std::size_t n, std::string_view field);
  void skip(std::uint64_t n, std::string_view field);
  // u64 length and that many bytes, at most max (limit) and at most what is left (format); appended to `to`.
  std::size_t append_string(std::string& to, std::uint64_t max, std::string_view field);
  std::string string(std::uint64_t max, std::string_view field);

 private:
  template <class T>
  T scalar(std::string_view field) {
    T v;
    static_assert(std::endian::native == std::endian::little);
    bytes(&v, sizeof v, field);
    return v;
  }
  void refill();

  const Reader& reader_;
  const Watch* watch_;
  std::string_view where_;
  std::uint64_t offset_, end_;
  std::uint64_t reads_ = 0, bytes_read_ = 0;
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t at_ = 0, filled_ = 0;  // in buffer_; buffer_[at_] is the byte at offset_
};

// All bytes of a small text file; limit where it is longer than max.
std::string read_text(const Reader& reader, std::uint64_t max, std::string_view where);

}  // namespace dsv31::inline v1::io
