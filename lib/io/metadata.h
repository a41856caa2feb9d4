// Key-values of a GGUF file. A vocabulary is an array of 100,000 to 300,000 strings: all strings share one text and one table of
// offsets, all numeric arrays one block of bytes, so that the memory is about that of the file and the allocations do not grow
// with the vocabulary. Constant after construction; any number of threads may read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "lib/io/name_index.h"

namespace dsv31::inline v1::io {

// Ids as in the file.
enum class ValueType : std::uint8_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };
inline constexpr int kValueTypeCount = 13;
std::string_view to_string(ValueType type) noexcept;
std::size_t value_bytes(ValueType type) noexcept;  // 0 for strings and arrays

// The strings of one array. The views live as long as the Metadata.
class StringArray {
 public:
  StringArray() = default;
  StringArray(const char* text, const std::uint64_t* ends, std::size_t count) : text_(text), ends_(ends), count_(count) {}
  std::size_t size() const noexcept { return count_; }
  bool empty() const noexcept { return count_ == 0; }
  std::string_view operator[](std::size_t i) const noexcept {
    return {text_ + ends_[i], static_cast<std::size_t>(ends_[i + 1] - ends_[i])};
  }
  class Iterator {
   public:
    Iterator(const StringArray* a, std::size_t i) : array_(a), i_(i) {}
    std::string_view operator*() const noexcept { return (*array_)[i_]; }
    Iterator& operator++() noexcept { return ++i_, *this; }
    bool operator!=(const Iterator& o) const noexcept { return i_ != o.i_; }

   private:
    const StringArray* array_;
    std::size_t i_;
  };
  Iterator begin() const noexcept { return {this, 0}; }
  Iterator end() const noexcept { return {this, count_}; }

 private:
  const char* text_ = nullptr;
  const std::uint64_t* ends_ = nullptr;  // (count + 1): string i is [ends[i], ends[i + 1])
  std::size_t count_ = 0;
};

class Metadata {
 public:
  static constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

  std::size_t size() const noexcept { return entries_.size(); }
  std::string_view key(std::size_t i) const noexcept;  // in file order
  bool has(std::string_view key) const noexcept { return find(key) != nullptr; }
  // "u32", "string", "array of f32"; empty where the key is absent.
  std::string type_name(std::string_view key) const;
  bool is_array(std::string_view key) const noexcept;
  std::size_t count(std::string_view key) const noexcept;  // elements of an array; 1 for a scalar; 0 where absent

  // Format, naming the key, what was got and what was expected, where the key is absent or its value does not fit. An integer is
  // one of any width; a number is an integer or a finite float; a boolean is only a bool.
  std::int64_t integer(std::string_view key, std::int64_t min = kMin, std::int64_t max = kMax) const;
  double number(std::string_view key) const;
  double number(std::string_view key, double min, double max) const;
  bool boolean(std::string_view key) const;
  std::string_view string(std::string_view key) const;
  std::vector<std::int64_t> integers(std::string_view key, std::int64_t min = kMin, std::int64_t max = kMax) const;
  std::vector<double> numbers(std::string_view key) const;
  std::vector<float> floats(std::string_view key) const;
  std::vector<bool> booleans(std::string_view key) const;
  StringArray strings(std::string_view key) const;

  // The same with a value for an absent key.
  std::int64_t integer_or(std::string_view key, std::int64_t absent, std::int64_t min = kMin, std::int64_t max = kMax) const;
  double number_or(std::string_view key, double absent) const;
  double number_or(std::string_view key, double absent, double min, double max) const;
  bool boolean_or(std::string_view key, bool absent) const;
  std::string_view string_or(std::string_view key, std::string_view absent) const;

 private:
  friend class MetadataBuilder;
  struct Entry {
    std::uint64_t key = 0;  // offset in keys_
    std::uint32_t key_bytes = 0;
    ValueType type = ValueType::u8;  // of the elements where array is set
    bool array = false;
    std::uint64_t count = 1;
    std::uint64_t at = 0;  // scalar: its bits; numbers: offset in numbers_; strings: first index in ends_
  };
  const Entry* find(std::string_view key) const noexcept;
  const Entry& get(std::string_view key, std::string_view expected) const;
  [[noreturn]] void wrong(std::string_view key, std::string_view expected) const;
  const std::byte* element(const Entry& e, std::uint64_t i) const noexcept;
  std::int64_t integer_at(const Entry& e, std::uint64_t i, std::string_view key, std::int64_t min, std::int64_t max) const;
  double number_at(const Entry& e, std::uint64_t i, std::string_view key) const;

  std::vector<Entry> entries_;
  NameIndex index_;
  std::string keys_;
  std::string text_;                 // of all string values
  std::vector<std::uint64_t> ends_;  // offsets in text_; the strings of an entry are consecutive, one extra offset at its start
  std::vector<std::byte> numbers_;   // elements of numeric arrays, packed
};

}  // namespace dsv31::inline v1::io
