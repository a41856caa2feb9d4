// Writes GGUF files in memory. What it writes is well-formed until a test edits a field or adds raw bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsv31/quant.h"
#include "dsv31/tensor.h"

namespace dsv31::test {

template <class T>
void append(std::string& to, T v) {
  char bytes[sizeof v];
  std::memcpy(bytes, &v, sizeof v);
  to.append(bytes, sizeof v);
}

inline void append_string(std::string& to, std::string_view s) {
  append<std::uint64_t>(to, s.size());
  to.append(s);
}

template <class T>
std::string bytes_of(T v) {
  std::string s;
  append(s, v);
  return s;
}

struct GgufTensor {
  std::string name;
  std::vector<std::uint64_t> ne;  // contiguous dimension first
  std::uint32_t type = 0;
  std::string data;
  std::optional<std::uint64_t> offset;  // written instead of the true one
  std::optional<std::uint32_t> n_dims;
};

class GgufBuilder {
 public:
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::optional<std::uint64_t> n_tensors, n_kv;             // written instead of the true counts
  std::uint64_t alignment = 32;                             // of the data; the key is written by u32("general.alignment", ...)
  std::vector<std::pair<std::string, std::string>> values;  // key, type and value as written
  std::vector<GgufTensor> tensors;

  GgufBuilder& raw(std::string key, std::uint32_t type, std::string bytes) {
    values.emplace_back(std::move(key), bytes_of(type) + std::move(bytes));
    return *this;
  }
  GgufBuilder& u8(std::string key, std::uint8_t v) { return raw(std::move(key), 0, bytes_of(v)); }
  GgufBuilder& u16(std::string key, std::uint16_t v) { return raw(std::move(key), 2, bytes_of(v)); }
  GgufBuilder& u32(std::string key, std::uint32_t v) { return raw(std::move(key), 4, bytes_of(v)); }
  GgufBuilder& i32(std::string key, std::int32_t v) { return raw(std::move(key), 5, bytes_of(v)); }
  GgufBuilder& f32(std::string key, float v) { return raw(std::move(key), 6, bytes_of(v)); }
  GgufBuilder& boolean(std::string key, bool v) { return raw(std::move(key), 7, bytes_of<std::uint8_t>(v)); }
  GgufBuilder& u64(std::string key, std::uint64_t v) { return raw(std::move(key), 10, bytes_of(v)); }
  GgufBuilder& i64(std::string key, std::int64_t v) { return raw(std::move(key), 11, bytes_of(v)); }
  GgufBuilder& f64(std::string key, double v) { return raw(std::move(key), 12, bytes_of(v)); }
  GgufBuilder& string(std::string key, std::string_view v) {
    std::string s;
    append_string(s, v);
    return raw(std::move(key), 8, std::move(s));
  }
  GgufBuilder& strings(std::string key, const std::vector<std::string>& v) {
    std::string s = bytes_of<std::uint32_t>(8) + bytes_of<std::uint64_t>(v.size());
    for (const std::string& e : v) append_string(s, e);
    return raw(std::move(key), 9, std::move(s));
  }
  GgufBuilder& i32s(std::string key, const std::vector<std::int32_t>& v) { return array(std::move(key), 5, v); }
  GgufBuilder& u32s(std::string key, const std::vector<std::uint32_t>& v) { return array(std::move(key), 4, v); }
  GgufBuilder& f32s(std::string key, const std::vector<float>& v) { return array(std::move(key), 6, v); }
  template <class T>
  GgufBuilder& array(std::string key, std::uint32_t type, const std::vector<T>& v) {
    std::string s = bytes_of(type) + bytes_of<std::uint64_t>(v.size());
    for (const T& e : v) append(s, e);
    return raw(std::move(key), 9, std::move(s));
  }

  // Zeros where no data is given.
  GgufBuilder& tensor(std::string name, DType type, Shape shape, std::string data = {}) {
    GgufTensor t;
    t.name = std::move(name);
    std::int64_t elements = 1;
    for (int i = shape.rank; i-- > 0;) {
      t.ne.push_back(static_cast<std::uint64_t>(shape[i]));
      elements *= shape[i];
    }
    t.type = static_cast<std::uint32_t>(format(type).ggml_id);
    if (data.empty()) data.assign(static_cast<std::size_t>(format_bytes(type, elements)), '\0');
    t.data = std::move(data);
    tensors.push_back(std::move(t));
    return *this;
  }
  GgufBuilder& tensor(std::string name, const std::vector<float>& data, Shape shape) {
    return tensor(std::move(name), DType::f32, shape,
                  std::string(reinterpret_cast<const char*>(data.data()), data.size() * sizeof(float)));
  }

  // Everything before the padding of the data.
  std::string header() const {
    std::string f = magic;
    append(f, version);
    append<std::uint64_t>(f, n_tensors.value_or(tensors.size()));
    append<std::uint64_t>(f, n_kv.value_or(values.size()));
    for (const auto& [key, value] : values) {
      append_string(f, key);
      f += value;
    }
    std::uint64_t offset = 0;
    for (const GgufTensor& t : tensors) {
      append_string(f, t.name);
      append<std::uint32_t>(f, t.n_dims.value_or(static_cast<std::uint32_t>(t.ne.size())));
      for (const std::uint64_t ne : t.ne) append(f, ne);
      append(f, t.type);
      append<std::uint64_t>(f, t.offset.value_or(offset));
      offset += padded(t.data.size());
    }
    return f;
  }
  std::string build() const {
    std::string f = header();
    f.resize(padded(f.size()));
    for (const GgufTensor& t : tensors) {
      f += t.data;
      f.resize(padded(f.size()));
    }
    return f;
  }

 private:
  std::size_t padded(std::size_t n) const { return (n + alignment - 1) / alignment * alignment; }
};

}  // namespace dsv31::test
