// Reading packed files; the layout stands in docs/packed.md.
#include "lib/io/packed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "dsv31/quant.h"
#include "lib/io/checksum.h"
#include "lib/io/gguf_metadata.h"
#include "lib/io/hugging_face.h"

namespace dsv31::inline v1::io {

namespace {

constexpr char kMagic[8] = {'D', 'S', 'V', '3', '1', 'P', 'A', 'K'};
constexpr std::uint64_t kChecksumAt = kPackedHeaderBytes - 8;
constexpr std::uint64_t kMinTensorBytes = 8 + 1 + 8 + 1 + 4;             // name and type of one byte
constexpr std::uint64_t kMinMatrixBytes = 3 * (8 + 1) + 3 * 8 + 4 * 8;   // three strings of one byte
constexpr std::uint64_t kMaxName = 4096, kMaxWord = 64, kMaxFiles = 16;  // bytes, bytes, side files
constexpr std::string_view kWhere = "packed";

[[noreturn]] void fail(Code code, std::string_view field, const std::string& what) {
  throw Error(code, kWhere, fmt::format("{}: {}", quoted(field), what));
}

void want(std::string_view field, std::uint64_t got, std::uint64_t expected) {
  if (got != expected) fail(Code::format, field, fmt::format("got {}, expected {}", got, expected));
}

// Memory as a Reader, with what keeps it alive.
class Window final : public Reader {
 public:
  Window(std::shared_ptr<const void> owner, const std::byte* data, std::size_t size)
      : owner_(std::move(owner)), data_(data), size_(size) {}
  std::uint64_t size() const override { return size_; }
  void read_at(std::uint64_t offset, void* dst, std::size_t n) const override {
    if (offset > size_ || n > size_ - offset)
      throw Error(Code::io, kWhere,
                  fmt::format("read at byte {} of the head: got {} bytes in all, expected {} there", offset, size_, n));
    std::copy_n(data_ + offset, n, static_cast<std::byte*>(dst));
  }
  std::shared_ptr<const Window> part(std::uint64_t offset, std::uint64_t n) const {  // inside, as a Cursor has checked
    return std::make_shared<Window>(owner_, data_ + offset, static_cast<std::size_t>(n));
  }
  const std::byte* data() const { return data_; }

 private:
  std::shared_ptr<const void> owner_;
  const std::byte* data_;
  std::size_t size_;
};

// The texts of a Hugging Face folder inside the head.
class HeadFolder final : public Folder {
 public:
  std::shared_ptr<const Reader> open(std::string_view name) const override {
    for (const Checkpoint::SideFile& f : files)
      if (f.name == name) return f.file;
    return nullptr;
  }
  std::vector<Checkpoint::SideFile> files;
};

struct Header {
  std::uint64_t head_bytes = 0, head_checksum = 0;
  bool gguf = true;
};

Header read_header(const Reader& file, PackedContents& to, const OpenLimits& limits) {
  const std::uint64_t size = file.size();
  if (size < kPackedHeaderBytes)
    fail(Code::format, "file_bytes", fmt::format("got a file of {} bytes, expected at least {}", size, kPackedHeaderBytes));
  std::byte bytes[kPackedHeaderBytes];
  file.read_at(0, bytes, sizeof bytes);
  const Window window(nullptr, bytes, sizeof bytes);
  Cursor c(window, kWhere, 0, sizeof bytes);
  c.skip(sizeof kMagic, "magic");
  if (const std::uint32_t version = c.u32("version"); version != kPackedVersion)
    fail(Code::unsupported, "version", fmt::format("got {}, expected {}", version, kPackedVersion));
  std::uint64_t stored = 0;
  std::memcpy(&stored, bytes + kChecksumAt, sizeof stored);
  if (stored != checksum(bytes, kChecksumAt))
    fail(Code::format, "header_checksum", "got another one, expected that of the header: the file is damaged");
  if (const std::uint32_t abi = c.u32("packing_abi"); abi != kPackingAbi)
    fail(Code::unsupported, "packing_abi",
         fmt::format("got {}, expected {}: pack the model again with this version", abi, kPackingAbi));
  const std::uint64_t file_bytes = c.u64("file_bytes");
  Header h;
  h.head_bytes = c.u64("head_bytes");
  to.payload_offset = c.u64("payload_offset");
  to.payload_bytes = c.u64("payload_bytes");
  h.head_checksum = c.u64("head_checksum");
  to.source_hash = c.u64("source_hash");
  to.source_bytes = c.u64("source_bytes");
  const std::uint32_t kind = c.u32("source_kind");
  if (kind > 1) fail(Code::format, "source_kind", fmt::format("got {}, expected 0 or 1", kind));
  h.gguf = kind == 0;
  want("reserved", c.u32("reserved"), 0);
  while (c.offset() < kChecksumAt) want("reserved", c.u64("reserved"), 0);
  if (size != file_bytes)
    fail(Code::format, "file_bytes",
         fmt::format("got a file of {} bytes, expected {}: it is {}", size, file_bytes,
                     size < file_bytes ? "cut short" : "too long"));
  if (h.head_bytes > limits.max_header_bytes + limits.max_metadata_bytes)
    fail(Code::limit, "head_bytes",
         fmt::format("got {}, expected at most {}", h.head_bytes, limits.max_header_bytes + limits.max_metadata_bytes));
  want("payload_offset", to.payload_offset, payload_offset(h.head_bytes));
  want("payload_bytes", checked_add(to.payload_offset, to.payload_bytes, {kWhere, "payload_bytes"}), size);
  return h;
}

std::shared_ptr<const Window> read_head(const std::shared_ptr<const Reader>& file, const Header& h, const OpenOptions& options) {
  const auto n = static_cast<std::size_t>(h.head_bytes);
  std::shared_ptr<const Window> head;
  if (const void* mapped = options.map ? file->map(kPackedHeaderBytes, n) : nullptr; mapped != nullptr) {
    head = std::make_shared<Window>(file, static_cast<const std::byte*>(mapped), n);
  } else {
    const std::shared_ptr<std::byte[]> bytes(new std::byte[n]);
    file->read_at(kPackedHeaderBytes, bytes.get(), n);
    head = std::make_shared<Window>(bytes, bytes.get(), n);
  }
  if (checksum(head->data(), n) != h.head_checksum)
    fail(Code::format, "head_checksum", "got another one, expected that of the head: the file is damaged");
  return head;
}

std::string read_word(Cursor& c, std::string_view field, std::uint64_t max) {
  std::string word = c.string(max, field);
  if (word.empty() || word.find('\0') != word.npos || !valid_utf8(word))
    fail(Code::format, field,
         fmt::format("got an empty one, a zero byte or broken UTF-8 before byte {} of the head", c.offset()));
  return word;
}

DType read_type(Cursor& c, const std::string& of) {
  const std::string name = read_word(c, of, kMaxWord);
  for (const FormatInfo& f : formats())
    if (f.name == name) return f.type;
  fail(Code::unsupported, of, fmt::format("got type {}, expected one that this build reads", quoted(name)));
}

std::uint64_t tensor_bytes(const TensorInfo& t) {
  const FormatInfo& info = format(t.type);
  const Field field{kWhere, t.name};
  const auto block = static_cast<std::uint64_t>(info.block);
  const std::uint64_t row = t.shape.rank == 0 ? 1 : static_cast<std::uint64_t>(t.shape[t.shape.rank - 1]);
  if (row % block != 0)
    fail(Code::format, t.name, fmt::format("got rows of {} elements, expected a multiple of {} for {}", row, block, info.name));
  std::uint64_t elements = 1;
  for (int i = 0; i < t.shape.rank; ++i) elements = checked_mul(elements, static_cast<std::uint64_t>(t.shape[i]), field);
  if (elements > static_cast<std::uint64_t>(INT64_MAX))
    fail(Code::format, t.name, fmt::format("got {} elements, expected fewer than 2^63", elements));
  return checked_mul(elements / block, static_cast<std::uint64_t>(info.bytes), field);
}

void read_tensors(Cursor& c, std::uint64_t head_bytes, const OpenLimits& limits, Checkpoint& to) {
  const std::uint64_t n = c.u64("n_tensors");
  if (n > limits.max_tensors) fail(Code::limit, "n_tensors", fmt::format("got {}, expected at most {}", n, limits.max_tensors));
  c.require(n, kMinTensorBytes, "n_tensors");
  to.reserve(static_cast<std::size_t>(n));
  for (std::uint64_t i = 0; i < n; ++i) {
    TensorInfo t;
    t.name = read_word(c, "tensor name", kMaxName);
    t.type = read_type(c, t.name);
    const std::uint32_t rank = c.u32(t.name);
    if (rank > 4) fail(Code::format, t.name, fmt::format("got {} dimensions, expected at most 4", rank));
    t.shape.rank = static_cast<int>(rank);
    for (std::uint32_t d = 0; d < rank; ++d) {
      t.shape.dim[d] = c.i64(t.name);
      if (t.shape.dim[d] < 0) fail(Code::format, t.name, fmt::format("got dimension {}, expected none below 0", t.shape.dim[d]));
    }
    t.bytes = tensor_bytes(t);
    t.offset = head_bytes;  // nothing to read there
    if (rank <= 1) {
      t.offset = c.offset();
      c.skip(t.bytes, t.name);
    }
    to.add(std::move(t), kWhere);
  }
}

StoredMatrix read_matrix(Cursor& c) {
  StoredMatrix m;
  m.name = read_word(c, "matrix name", kMaxName);
  m.type = read_type(c, m.name);
  m.layout = read_word(c, m.name, kMaxWord);
  for (std::int64_t* n : {&m.count, &m.rows, &m.cols}) {
    *n = c.i64(m.name);
    if (*n < 1) fail(Code::format, m.name, fmt::format("got dimension {}, expected at least 1", *n));
  }
  m.stride = c.u64(m.name);
  m.scale_count = c.u64(m.name);
  m.offset = c.u64(m.name);
  m.checksum = c.u64(m.name);
  return m;
}

void read_matrices(Cursor& c, const OpenLimits& limits, PackedContents& to) {
  const std::uint64_t n = c.u64("n_matrices");
  if (n > limits.max_tensors) fail(Code::limit, "n_matrices", fmt::format("got {}, expected at most {}", n, limits.max_tensors));
  c.require(n, kMinMatrixBytes, "n_matrices");
  to.matrices.reserve(static_cast<std::size_t>(n));
  std::uint64_t expected = to.payload_offset;
  const std::uint64_t end = to.payload_offset + to.payload_bytes;  // the length of the file
  for (std::uint64_t i = 0; i < n; ++i) {
    StoredMatrix m = read_matrix(c);
    const Field field{kWhere, m.name};
    if (m.stride == 0 || m.stride % kMatrixAlignment != 0)
      fail(Code::format, m.name, fmt::format("got a stride of {} bytes, expected a multiple of {}", m.stride, kMatrixAlignment));
    if (m.offset != expected)
      fail(Code::format, m.name, fmt::format("got offset {}, expected {}: matrices follow each other", m.offset, expected));
    const std::uint64_t bytes = checked_add(checked_mul(m.stride, static_cast<std::uint64_t>(m.count), field),
                                            checked_mul(m.scale_count, sizeof(float), field), field);
    expected = align_up(checked_add(m.offset, bytes, field), kMatrixAlignment, field);
    if (expected > end)
      fail(Code::format, m.name, fmt::format("got bytes {} to {}, expected them within the file of {}", m.offset, expected, end));
    to.matrices.push_back(std::move(m));
  }
  want("payload_bytes", to.payload_bytes, expected - to.payload_offset);
  if (c.remaining() != 0)
    fail(Code::format, "head_bytes", fmt::format("got {} bytes behind the tables, expected none", c.remaining()));
}

void read_texts(Cursor& c, const Window& head, const OpenLimits& limits, Checkpoint& to) {
  if (to.kind == Checkpoint::Kind::gguf) {
    const std::uint64_t n_kv = c.u64("n_kv");
    if (n_kv > limits.max_keys) fail(Code::limit, "n_kv", fmt::format("got {}, expected at most {}", n_kv, limits.max_keys));
    c.require(n_kv, 8 + 1 + 4 + 1, "n_kv");  // as in a GGUF: a key of one byte, a u8
    to.metadata = read_gguf_metadata(c, n_kv, kWhere, limits);
    return;
  }
  const std::uint64_t n = c.u64("n_files");
  if (n > kMaxFiles) fail(Code::limit, "n_files", fmt::format("got {}, expected at most {}", n, kMaxFiles));
  HeadFolder folder;
  for (std::uint64_t i = 0; i < n; ++i) {
    std::string name = read_word(c, "file name", kMaxWord);
    if (folder.open(name) != nullptr) fail(Code::format, name, "got this file twice, expected it once");
    const std::uint64_t bytes = c.u64(name), at = c.offset();
    c.skip(bytes, name);
    folder.files.push_back({std::move(name), head.part(at, bytes)});
  }
  read_side_files(folder, limits, to);
  if (to.config.is_null()) fail(Code::format, "config.json", "got a packed folder without it, expected one with");
}

}  // namespace

bool has_packed_magic(const Reader& file) {
  char magic[sizeof kMagic];
  if (file.size() < sizeof magic) return false;
  file.read_at(0, magic, sizeof magic);
  return std::memcmp(magic, kMagic, sizeof magic) == 0;
}

std::uint64_t payload_offset(std::uint64_t head_bytes) {
  const Field field{kWhere, "head_bytes"};
  return align_up(checked_add(kPackedHeaderBytes, head_bytes, field), kPayloadAlignment, field);
}

Checkpoint open_packed(std::shared_ptr<const Reader> file, const OpenOptions& options) {
  const Watch watch(&options.progress, options.cancel);
  const std::uint64_t size = file->size();
  watch.report(Stage::read_metadata, 0, size);
  auto packed = std::make_shared<PackedContents>();
  packed->map = options.map;
  const Header header = read_header(*file, *packed, options.limits);
  const std::shared_ptr<const Window> head = read_head(file, header, options);
  packed->file = std::move(file);

  Checkpoint c;
  c.kind = header.gguf ? Checkpoint::Kind::gguf : Checkpoint::Kind::safetensors;
  c.files.push_back(head);
  Cursor cursor(*head, kWhere, 0, header.head_bytes, &watch);
  read_texts(cursor, *head, options.limits, c);
  read_tensors(cursor, header.head_bytes, options.limits, c);
  read_matrices(cursor, options.limits, *packed);
  c.count.reads += cursor.reads() + 1;
  c.count.bytes_read += cursor.bytes_read() + kPackedHeaderBytes;
  c.packed = std::move(packed);
  watch.report(Stage::read_metadata, size, size);
  return c;
}

void verify_packed(const PackedContents& packed, const Watch& watch) {
  constexpr std::uint64_t kSlice = std::uint64_t{4} << 20;
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(kSlice, packed.payload_bytes)));
  std::uint64_t done = 0;
  watch.report(Stage::read_weights, 0, packed.payload_bytes);
  for (const StoredMatrix& m : packed.matrices) {
    Checksum sum;
    const std::uint64_t bytes = align_up(m.bytes(), kMatrixAlignment, {kWhere, m.name});
    for (std::uint64_t at = 0; at < bytes;) {
      const auto n = static_cast<std::size_t>(std::min(kSlice, bytes - at));
      packed.file->read_at(m.offset + at, buffer.data(), n);
      sum.add(buffer.data(), n);
      at += n, done += n;
      watch.report(Stage::read_weights, done, packed.payload_bytes);
    }
    if (sum.value() != m.checksum)
      fail(Code::format, m.name,
           fmt::format("got checksum {}, expected {}: the file is damaged", checksum_text(sum.value()),
                       checksum_text(m.checksum)));
  }
}

}  // namespace dsv31::inline v1::io
