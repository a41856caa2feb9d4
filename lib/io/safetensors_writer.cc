#include "lib/io/safetensors_writer.h"

#include <fmt/format.h>

#include "dsv31/quant.h"
#include "lib/io/bytes.h"

namespace dsv31::inline v1::io {

namespace {

void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += '\\', out += c;
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  out += '"';
}

std::string shard_name(std::uint64_t shard, std::uint64_t shards) {
  return shards == 1 ? std::string("model.safetensors") : fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards);
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(OutputFolder& folder, std::vector<TensorInfo> tensors, const Json& metadata,
                                     std::uint64_t shard_bytes)
    : folder_(folder), tensors_(std::move(tensors)), metadata_(metadata) {
  std::uint64_t in_shard = 0;
  std::size_t shard = 0;
  for (TensorInfo& t : tensors_) {
    if (in_shard > 0 && in_shard + t.bytes > shard_bytes) ++shard, in_shard = 0;
    t.file = shard;
    in_shard += t.bytes;
    total_ = checked_add(total_, t.bytes, {"convert", t.name});
  }
  shards_ = shard + 1;
  begin_shard();
}

void SafetensorsWriter::begin_shard() {
  const std::uint64_t shard = tensor_ < tensors_.size() ? tensors_[tensor_].file : 0;
  std::string header = "{";
  if (metadata_.is_object()) {
    header += "\"__metadata__\":{";
    bool first = true;
    for (const auto& [key, value] : metadata_.as_object()) {
      if (!value.is_string()) continue;
      if (!std::exchange(first, false)) header += ',';
      append_string(header, key);
      header += ':';
      append_string(header, value.as_string());
    }
    header += '}';
  }
  std::uint64_t offset = 0;
  for (std::size_t i = tensor_; i < tensors_.size() && tensors_[i].file == shard; ++i) {
    const TensorInfo& t = tensors_[i];
    if (header.size() > 1) header += ',';
    append_string(header, t.name);
    header += fmt::format(":{{\"dtype\":\"{}\",\"shape\":[", format(t.type).safetensors);
    for (int d = 0; d < t.shape.rank; ++d) header += fmt::format("{}{}", d > 0 ? "," : "", t.shape[d]);
    header += fmt::format("],\"data_offsets\":[{},{}]}}", offset, offset + t.bytes);
    offset += t.bytes;
  }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');  // the data is aligned
  if (file_ != nullptr) file_->commit();
  file_ = folder_.create(shard_name(shard, shards_));
  offset_ = 0;
  const std::uint64_t n = header.size();
  unsigned char length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(n >> (8 * i));
  put(length, sizeof length);
  put(header.data(), header.size());
}

void SafetensorsWriter::put(const void* data, std::size_t n) {
  file_->write_at(offset_, data, n);
  offset_ += n;
}

void SafetensorsWriter::write(const void* data, std::size_t n) {
  while (tensor_ < tensors_.size() && within_ == tensors_[tensor_].bytes) {
    ++tensor_, within_ = 0;
    if (tensor_ < tensors_.size() && tensors_[tensor_].file != tensors_[tensor_ - 1].file) begin_shard();
  }
  if (n == 0) return;
  put(data, n);
  within_ += n;
}

void SafetensorsWriter::finish() {
  write(nullptr, 0);
  file_->commit();
  file_.reset();
  if (shards_ == 1) return;
  std::string index = fmt::format("{{\"metadata\": {{\"total_size\": {}}}, \"weight_map\": {{", total_);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (i > 0) index += ", ";
    append_string(index, tensors_[i].name);
    index += fmt::format(": \"{}\"", shard_name(tensors_[i].file, shards_));
  }
  index += "}}\n";
  folder_.write("model.safetensors.index.json", index);
}

}  // namespace dsv31::inline v1::io
