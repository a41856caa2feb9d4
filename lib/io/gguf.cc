#include "lib/io/gguf.h"

#include <fmt/format.h>

#include <cstring>

#include "dsv31/quant.h"
#include "lib/io/gguf_metadata.h"

namespace dsv31::inline v1::io {

namespace {

constexpr char kMagic[4] = {'G', 'G', 'U', 'F'};
constexpr std::uint64_t kHeaderBytes = 24;
constexpr std::uint64_t kMinKeyValueBytes = 8 + 1 + 4 + 1;        // key of one byte, a u8
constexpr std::uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;  // name of one byte, one dimension
constexpr std::uint64_t kMaxTensorName = 63;                      // ggml keeps 64 with the terminator

[[noreturn]] void fail(Code code, std::string_view where, std::string_view field, std::uint64_t offset, const std::string& what) {
  throw Error(code, where, fmt::format("{} at byte {}: {}", quoted(field), offset, what));
}

struct Header {
  std::uint64_t n_tensors = 0, n_kv = 0;
};

Header read_header(Cursor& cursor, std::string_view where, std::uint64_t tensors_before, const OpenLimits& limits) {
  if (cursor.remaining() < kHeaderBytes)
    fail(Code::format, where, "magic", 0,
         fmt::format("got a file of {} bytes, expected at least {}", cursor.remaining(), kHeaderBytes));
  char magic[4];
  cursor.bytes(magic, sizeof magic, "magic");
  if (std::memcmp(magic, kMagic, sizeof magic) != 0) fail(Code::format, where, "magic", 0, "got other bytes, expected GGUF");
  const std::uint32_t version = cursor.u32("version");
  if (version != 2 && version != 3)
    fail(Code::unsupported, where, "version", 4,
         (version & 0xFFFF) == 0 && version != 0 ? "got a big-endian file, expected a little-endian one"
                                                 : fmt::format("got {}, expected 2 or 3", version));
  Header h;
  h.n_tensors = cursor.u64("n_tensors");
  h.n_kv = cursor.u64("n_kv");
  if (h.n_tensors > limits.max_tensors - tensors_before)
    fail(Code::limit, where, "n_tensors", 8,
         fmt::format("got {}, expected at most {}", h.n_tensors, limits.max_tensors - tensors_before));
  if (h.n_kv > limits.max_keys)
    fail(Code::limit, where, "n_kv", 16, fmt::format("got {}, expected at most {}", h.n_kv, limits.max_keys));
  cursor.require(h.n_kv, kMinKeyValueBytes, "n_kv");
  cursor.require(h.n_tensors, kMinTensorBytes, "n_tensors");
  return h;
}

std::string read_name(Cursor& cursor, std::string_view where) {
  const std::uint64_t offset = cursor.offset();
  const std::uint64_t n = cursor.u64("tensor name");
  if (n == 0 || n > kMaxTensorName)
    fail(Code::format, where, "tensor name", offset, fmt::format("got {} bytes, expected 1 to {}", n, kMaxTensorName));
  std::string name(static_cast<std::size_t>(n), '\0');
  cursor.bytes(name.data(), name.size(), "tensor name");
  if (name.find('\0') != name.npos || !valid_utf8(name))
    fail(Code::format, where, "tensor name", offset, "got a zero byte or broken UTF-8, expected UTF-8");
  return name;
}

Shape read_shape(Cursor& cursor, std::string_view where, const std::string& name) {
  const std::uint64_t offset = cursor.offset();
  const std::uint32_t n_dims = cursor.u32(name);
  if (n_dims < 1 || n_dims > 4)
    fail(Code::format, where, name, offset, fmt::format("got {} dimensions, expected 1 to 4", n_dims));
  Shape shape;
  shape.rank = static_cast<int>(n_dims);
  for (std::uint32_t i = n_dims; i-- > 0;) {  // the file has the contiguous one first
    const std::int64_t ne = cursor.i64(name);
    if (ne < 1) fail(Code::format, where, name, cursor.offset() - 8, fmt::format("got dimension {}, expected at least 1", ne));
    shape.dim[i] = ne;
  }
  return shape;
}

const FormatInfo& read_type(Cursor& cursor, std::string_view where, const std::string& name) {
  const std::uint64_t offset = cursor.offset();
  const std::int32_t id = cursor.i32(name);
  const FormatInfo* info = id < 0 ? nullptr : format_by_ggml_id(id);
  if (info != nullptr) return *info;
  const std::string_view known = id < 0 ? std::string_view() : ggml_type_name(id);
  fail(Code::unsupported, where, name, offset,
       fmt::format("got ggml type {} ({}), expected one that this build reads", id, known.empty() ? "unknown" : known));
}

std::uint64_t tensor_bytes(const Shape& shape, const FormatInfo& info, std::string_view where, const std::string& name) {
  const Field field{where, name};
  const auto row = static_cast<std::uint64_t>(shape[shape.rank - 1]);
  const auto block = static_cast<std::uint64_t>(info.block);
  if (row % block != 0)
    throw Error(
        Code::format, where,
        fmt::format("{}: got rows of {} elements, expected a multiple of {} for {}", quoted(name), row, block, info.name));
  std::uint64_t elements = 1;
  for (int i = 0; i < shape.rank; ++i) elements = checked_mul(elements, static_cast<std::uint64_t>(shape[i]), field);
  if (elements > static_cast<std::uint64_t>(INT64_MAX))
    throw Error(Code::format, where, fmt::format("{}: got {} elements, expected fewer than 2^63", quoted(name), elements));
  return checked_mul(elements / block, static_cast<std::uint64_t>(info.bytes), field);
}

}  // namespace

bool has_gguf_magic(const Reader& file) {
  char magic[4];
  if (file.size() < sizeof magic) return false;
  file.read_at(0, magic, sizeof magic);
  return std::memcmp(magic, kMagic, sizeof magic) == 0;
}

Metadata read_gguf(std::shared_ptr<const Reader> file, std::string_view where, const Watch& watch, const OpenLimits& limits,
                   Checkpoint& to) {
  const std::uint64_t size = file->size();
  Cursor cursor(*file, where, 0, size, &watch);
  const Header header = read_header(cursor, where, to.tensors.size(), limits);
  Metadata metadata = read_gguf_metadata(cursor, header.n_kv, where, limits);
  const std::uint64_t alignment = gguf_alignment(metadata, where);
  cursor.require(header.n_tensors, kMinTensorBytes, "n_tensors");

  const std::size_t begin = to.tensors.size();
  const std::size_t file_index = to.files.size();
  to.files.push_back(file);
  to.reserve(begin + static_cast<std::size_t>(header.n_tensors));
  std::uint64_t expected = 0;  // offset of the next tensor from the start of the data
  for (std::uint64_t i = 0; i < header.n_tensors; ++i) {
    TensorInfo t;
    t.name = read_name(cursor, where);
    t.shape = read_shape(cursor, where, t.name);
    const FormatInfo& info = read_type(cursor, where, t.name);
    t.type = info.type;
    t.file = file_index;
    t.bytes = tensor_bytes(t.shape, info, where, t.name);
    t.offset = cursor.u64(t.name);
    if (t.offset != expected)
      fail(Code::format, where, t.name, cursor.offset() - 8,
           fmt::format("got offset {}, expected {}: tensors follow each other, aligned to {}", t.offset, expected, alignment));
    const Field field{where, t.name};
    expected = align_up(checked_add(t.offset, t.bytes, field), alignment, field);
    to.add(std::move(t), where);
  }

  const std::uint64_t data = align_up(cursor.offset(), alignment, {where, "data"});
  std::uint64_t end = data;
  for (std::size_t i = begin; i < to.tensors.size(); ++i) {
    TensorInfo& t = to.tensors[i];
    const Field field{where, t.name};
    t.offset = checked_add(t.offset, data, field);
    end = checked_add(t.offset, t.bytes, field);
    if (end > size)
      throw Error(
          Code::format, where,
          fmt::format("{}: got bytes {} to {}, expected them within the file of {} bytes", quoted(t.name), t.offset, end, size));
  }
  if (header.n_tensors > 0 && size > align_up(end, alignment, {where, "data"}))
    to.warnings.push_back(fmt::format("[{}] {} bytes follow the last tensor", where, size - end));
  to.count.reads += cursor.reads();
  to.count.bytes_read += cursor.bytes_read();
  return metadata;
}

}  // namespace dsv31::inline v1::io
