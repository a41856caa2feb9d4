#include "lib/io/gguf_metadata.h"

#include <fmt/format.h>

#include <bit>

namespace dsv31::inline v1::io {

namespace {

constexpr std::uint64_t kMaxKeyBytes = 1 << 16;
constexpr std::uint64_t kMaxAlignment = 1 << 20;

}  // namespace

class MetadataBuilder {
 public:
  MetadataBuilder(Cursor& cursor, std::string_view where, const OpenLimits& limits)
      : cursor_(cursor), where_(where), budget_(limits.max_metadata_bytes) {}

  Metadata read(std::uint64_t n_kv) {
    m_.entries_.reserve(static_cast<std::size_t>(n_kv));
    m_.index_.reserve(static_cast<std::size_t>(n_kv));
    for (std::uint64_t i = 0; i < n_kv; ++i) {
      m_.entries_.emplace_back();
      Metadata::Entry& e = m_.entries_.back();
      read_key(e);
      read_value(e);
    }
    return std::move(m_);
  }

 private:
  [[noreturn]] void fail(std::string_view key, std::uint64_t offset, const std::string& what) const {
    throw Error(Code::format, where_, fmt::format("{} at byte {}: {}", quoted(key), offset, what));
  }

  void read_key(Metadata::Entry& e) {
    const std::uint64_t offset = cursor_.offset();
    const std::uint64_t n = cursor_.u64("key");
    if (n == 0 || n > kMaxKeyBytes) fail("key", offset, fmt::format("got a key of {} bytes, expected 1 to {}", n, kMaxKeyBytes));
    cursor_.require(n, 1, "key");
    spend(n, "key");
    e.key = m_.keys_.size();
    e.key_bytes = static_cast<std::uint32_t>(n);
    m_.keys_.resize(m_.keys_.size() + n);
    cursor_.bytes(m_.keys_.data() + e.key, static_cast<std::size_t>(n), "key");
    const std::string_view key = m_.key(m_.entries_.size() - 1);
    if (key.find('\0') != key.npos || !valid_utf8(key))
      fail("key", offset, "got a key with a zero byte or broken UTF-8, expected UTF-8");
    const auto at = static_cast<std::uint32_t>(m_.entries_.size() - 1);
    if (m_.index_.insert(key, at, [this](std::uint32_t i) { return m_.key(i); }, where_) != NameIndex::kNone)
      fail(key, offset, "got this key twice, expected it once");
  }

  ValueType read_type(std::string_view key) {
    const std::uint64_t offset = cursor_.offset();
    const std::uint32_t type = cursor_.u32(key);
    if (type >= kValueTypeCount) fail(key, offset, fmt::format("got value type {}, expected 0 to {}", type, kValueTypeCount - 1));
    return static_cast<ValueType>(type);
  }

  void read_value(Metadata::Entry& e) {
    const std::string key(m_.key(m_.entries_.size() - 1));  // keys_ does not move below; a copy is still the simple way
    e.type = read_type(key);
    if (e.type == ValueType::array) {
      e.array = true;
      const std::uint64_t offset = cursor_.offset();
      e.type = read_type(key);
      if (e.type == ValueType::array) fail(key, offset, "got an array of arrays, expected an array of scalars or strings");
      e.count = cursor_.u64(key);
    }
    if (e.type == ValueType::string)
      read_strings(e, key);
    else
      read_numbers(e, key);
  }

  void read_strings(Metadata::Entry& e, std::string_view key) {
    cursor_.require(e.count, 8, key);  // a length each
    spend(8 * (e.count + 1), key);
    e.at = m_.ends_.size();
    m_.ends_.reserve(grown(m_.ends_.capacity(), m_.ends_.size() + static_cast<std::size_t>(e.count) + 1));
    m_.ends_.push_back(m_.text_.size());
    for (std::uint64_t i = 0; i < e.count; ++i) {
      budget_ -= cursor_.append_string(m_.text_, budget_, key);
      m_.ends_.push_back(m_.text_.size());
    }
  }

  void read_numbers(Metadata::Entry& e, std::string_view key) {
    const std::size_t size = value_bytes(e.type);
    cursor_.require(e.count, size, key);
    const std::uint64_t offset = cursor_.offset();
    const std::size_t bytes = static_cast<std::size_t>(e.count) * size;
    std::byte* to = reinterpret_cast<std::byte*>(&e.at);
    if (e.array) {
      spend(bytes, key);
      e.at = m_.numbers_.size();
      m_.numbers_.reserve(grown(m_.numbers_.capacity(), m_.numbers_.size() + bytes));
      m_.numbers_.resize(m_.numbers_.size() + bytes);
      to = m_.numbers_.data() + e.at;
    }
    cursor_.bytes(to, bytes, key);
    if (e.type == ValueType::boolean)
      for (std::size_t i = 0; i < bytes; ++i)
        if (to[i] > std::byte{1}) fail(key, offset + i, "got a bool that is neither 0 nor 1, expected 0 or 1");
  }

  // Capacities at least double, so that many small arrays are not copied again and again.
  static std::size_t grown(std::size_t capacity, std::size_t wanted) {
    return wanted <= capacity ? capacity : wanted < 2 * capacity ? 2 * capacity : wanted;
  }

  void spend(std::uint64_t bytes, std::string_view key) {
    if (bytes > budget_)
      throw Error(Code::limit, where_,
                  fmt::format("{} at byte {}: got metadata of {} bytes, expected at most the {} that the limit leaves",
                              quoted(key), cursor_.offset(), bytes, budget_));
    budget_ -= bytes;
  }

  Cursor& cursor_;
  std::string_view where_;
  std::uint64_t budget_;
  Metadata m_;
};

Metadata read_gguf_metadata(Cursor& cursor, std::uint64_t n_kv, std::string_view where, const OpenLimits& limits) {
  return MetadataBuilder(cursor, where, limits).read(n_kv);
}

std::uint64_t gguf_alignment(const Metadata& metadata, std::string_view where) {
  constexpr std::string_view key = "general.alignment";
  if (!metadata.has(key)) return 32;
  if (metadata.type_name(key) != "u32")
    throw Error(Code::format, where, fmt::format("{}: got {}, expected u32", quoted(key), metadata.type_name(key)));
  const auto alignment = static_cast<std::uint64_t>(metadata.integer(key));
  if (!std::has_single_bit(alignment) || alignment > kMaxAlignment)
    throw Error(Code::format, where,
                fmt::format("{}: got {}, expected a power of two up to {}", quoted(key), alignment, kMaxAlignment));
  return alignment;
}

}  // namespace dsv31::inline v1::io
