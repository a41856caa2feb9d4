#include "lib/io/bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace dsv31::inline v1::io {

namespace {

constexpr std::size_t kWindow = 1 << 16;

[[noreturn]] void overflow(const Field& field) {
  throw Error(field.code, field.where,
              fmt::format("{}: got a size that does not fit 64 bits, expected one within the file", quoted(field.name)));
}

// Bytes of the UTF-8 character at p, 0 where there is none: no overlong form, no surrogate, nothing above U+10FFFF.
std::size_t utf8_length(const unsigned char* p, std::size_t left) noexcept {
  const unsigned char lead = p[0];
  if (lead < 0x80) return 1;
  std::size_t n = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || left < n) return 0;
  for (std::size_t i = 1; i < n; ++i)
    if ((p[i] & 0xC0) != 0x80) return 0;
  if ((lead == 0xE0 && p[1] < 0xA0) || (lead == 0xED && p[1] > 0x9F) || (lead == 0xF0 && p[1] < 0x90) ||
      (lead == 0xF4 && p[1] > 0x8F))
    return 0;
  return n;
}

}  // namespace

std::uint64_t checked_add(std::uint64_t a, std::uint64_t b, const Field& field) {
  const std::uint64_t sum = a + b;
  if (sum < a) overflow(field);
  return sum;
}

std::uint64_t checked_mul(std::uint64_t a, std::uint64_t b, const Field& field) {
  if (b != 0 && a > ~std::uint64_t{0} / b) overflow(field);
  return a * b;
}

std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment, const Field& field) {
  return checked_add(value, alignment - 1, field) & ~(alignment - 1);
}

bool valid_utf8(std::string_view text) noexcept {
  const auto* p = reinterpret_cast<const unsigned char*>(text.data());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t n = utf8_length(p + i, text.size() - i);
    if (n == 0) return false;
    i += n;
  }
  return true;
}

std::string quoted(std::string_view name) {
  constexpr std::size_t max = 80;
  std::string out = "\"";
  const auto* p = reinterpret_cast<const unsigned char*>(name.data());
  std::size_t i = 0;
  while (i < name.size()) {
    const std::size_t n = utf8_length(p + i, name.size() - i);
    if (out.size() + std::max<std::size_t>(n, 1) > max) break;
    if (n == 0 || p[i] < 0x20 || p[i] == 0x7F || (p[i] == 0xC2 && p[i + 1] < 0xA0))  // U+0080 to U+009F are controls too
      out += '?';
    else
      out.append(name.substr(i, n));
    i += std::max<std::size_t>(n, 1);
  }
  return out += i < name.size() ? "...\"" : "\"";
}

void Watch::check() const {
  if (cancel_ != nullptr && cancel_->cancelled()) throw Error(Code::cancelled, "open", "got a cancel while reading metadata");
}

void Watch::report(Stage stage, std::uint64_t done, std::uint64_t total) const {
  check();
  if (progress_ != nullptr && *progress_ && !(*progress_)(stage, done, total))
    throw Error(Code::cancelled, "open", "got false from the progress callback");
}

Cursor::Cursor(const Reader& reader, std::string_view where, std::uint64_t begin, std::uint64_t end, const Watch* watch)
    : reader_(reader), watch_(watch), where_(where), offset_(std::min(begin, end)), end_(end) {}

void Cursor::require(std::uint64_t count, std::uint64_t size, std::string_view field) const {
  if (size != 0 && count > remaining() / size)
    throw Error(Code::format, where_,
                fmt::format("{} at byte {}: got {} x {} bytes, expected at most the {} that are left", quoted(field), offset_,
                            count, size, remaining()));
}

void Cursor::refill() {
  const std::size_t n = static_cast<std::size_t>(std::min<std::uint64_t>(kWindow, remaining()));
  if (buffer_ == nullptr) buffer_ = std::make_unique<std::byte[]>(n);  // the first window is the largest
  if (watch_ != nullptr) watch_->check();
  at_ = filled_ = 0;
  reader_.read_at(offset_, buffer_.get(), n);
  filled_ = n;
  ++reads_;
  bytes_read_ += n;
}

void Cursor::bytes(void* dst, std::size_t n, std::string_view field) {
  require(n, 1, field);
  auto* to = static_cast<std::byte*>(dst);
  while (n > 0) {
    if (at_ == filled_ && n >= kWindow) {  // large and nothing buffered: straight into place, in slices so that cancel is seen
      const std::size_t k = std::min<std::size_t>(n, std::size_t{1} << 22);
      if (watch_ != nullptr) watch_->check();
      reader_.read_at(offset_, to, k);
      ++reads_;
      bytes_read_ += k;
      offset_ += k, to += k, n -= k;
      continue;
    }
    if (at_ == filled_) refill();
    const std::size_t k = std::min(n, filled_ - at_);
    std::memcpy(to, buffer_.get() + at_, k);
    at_ += k, offset_ += k, to += k, n -= k;
  }
}

void Cursor::skip(std::uint64_t n, std::string_view field) {
  require(n, 1, field);
  at_ = n < filled_ - at_ ? at_ + static_cast<std::size_t>(n) : filled_;
  offset_ += n;
}

std::size_t Cursor::append_string(std::string& to, std::uint64_t max, std::string_view field) {
  const std::uint64_t begin = offset_;
  const std::uint64_t n = u64(field);
  require(n, 1, field);
  if (n > max)
    throw Error(Code::limit, where_,
                fmt::format("{} at byte {}: got a string of {} bytes, expected at most {}", quoted(field), begin, n, max));
  const std::size_t old = to.size();
  to.resize(old + static_cast<std::size_t>(n));
  bytes(to.data() + old, static_cast<std::size_t>(n), field);
  return static_cast<std::size_t>(n);
}

std::string Cursor::string(std::uint64_t max, std::string_view field) {
  std::string s;
  append_string(s, max, field);
  return s;
}

std::string read_text(const Reader& reader, std::uint64_t max, std::string_view where) {
  const std::uint64_t n = reader.size();
  if (n > max) throw Error(Code::limit, where, fmt::format("length: got {} bytes, expected at most {}", n, max));
  std::string text(static_cast<std::size_t>(n), '\0');
  if (n > 0) reader.read_at(0, text.data(), text.size());
  return text;
}

}  // namespace dsv31::inline v1::io
