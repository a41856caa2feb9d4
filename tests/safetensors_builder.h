// Writes safetensors files in memory. Names and dtypes go into the JSON as they are.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dsv31::test {

// A header of any text before any data.
inline std::string safetensors_file(std::string_view header, std::string_view data) {
  const std::uint64_t n = header.size();
  std::string f(8, '\0');
  std::memcpy(f.data(), &n, 8);
  return (f += header) += data;
}

class SafetensorsBuilder {
 public:
  SafetensorsBuilder& tensor(std::string_view name, std::string_view dtype, const std::vector<std::int64_t>& shape,
                             std::string data) {
    std::string entry = "{\"dtype\":\"";
    entry.append(dtype).append("\",\"shape\":[");
    for (std::size_t i = 0; i < shape.size(); ++i) entry.append(i == 0 ? "" : ",").append(std::to_string(shape[i]));
    entry.append("],\"data_offsets\":[").append(std::to_string(data_.size()));
    data_ += data;
    entry.append(",").append(std::to_string(data_.size())).append("]}");
    return member(name, entry);
  }
  SafetensorsBuilder& tensor(std::string_view name, const std::vector<float>& data, const std::vector<std::int64_t>& shape) {
    return tensor(name, "F32", shape, std::string(reinterpret_cast<const char*>(data.data()), data.size() * sizeof(float)));
  }
  SafetensorsBuilder& metadata(std::string_view json) { return member("__metadata__", json); }

  std::string header() const { return std::string("{").append(members_).append("}"); }
  const std::string& data() const { return data_; }
  std::string build() const { return safetensors_file(header(), data_); }

 private:
  SafetensorsBuilder& member(std::string_view name, std::string_view value) {
    if (!members_.empty()) members_ += ',';
    members_ += '"';
    members_ += name;
    members_ += "\":";
    members_ += value;
    return *this;
  }
  std::string members_, data_;
};

}  // namespace dsv31::test
