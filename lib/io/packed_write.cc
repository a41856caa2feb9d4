// What a packed file holds before its payload.
#include <algorithm>
#include <cstring>

#include "dsv31/quant.h"
#include "lib/io/checksum.h"
#include "lib/io/gguf_metadata.h"
#include "lib/io/packed.h"

namespace dsv31::inline v1::io {

namespace {

constexpr std::uint64_t kMaxText = std::uint64_t{128} << 20;  // of a tokenizer.json, the largest

template <class T>
void put(std::string& to, T v) {
  static_assert(std::endian::native == std::endian::little);
  char bytes[sizeof v];
  std::memcpy(bytes, &v, sizeof v);
  to.append(bytes, sizeof v);
}

void put_string(std::string& to, std::string_view s) {
  put<std::uint64_t>(to, s.size());
  to.append(s);
}

void put_bytes(std::string& to, const Reader& file, std::uint64_t offset, std::uint64_t n) {
  const std::size_t at = to.size();
  to.resize(at + static_cast<std::size_t>(n));
  file.read_at(offset, to.data() + at, static_cast<std::size_t>(n));
}

// n_kv and the key-values of the first file, byte for byte.
void put_gguf(std::string& to, const Reader& file) {
  constexpr std::uint64_t kCountAt = 16;
  Cursor c(file, "gguf", kCountAt, file.size());
  const std::uint64_t n_kv = c.u64("n_kv");
  read_gguf_metadata(c, n_kv, "gguf", {});
  put_bytes(to, file, kCountAt, c.offset() - kCountAt);
}

void put_files(std::string& to, const std::vector<Checkpoint::SideFile>& files) {
  put<std::uint64_t>(to, files.size());
  for (const Checkpoint::SideFile& f : files) {
    put_string(to, f.name);
    put_string(to, read_text(*f.file, kMaxText, f.name));
  }
}

}  // namespace

std::string packed_head(const Checkpoint& source, std::span<const StoredMatrix> matrices) {
  std::string out;
  if (source.kind == Checkpoint::Kind::gguf)
    put_gguf(out, *source.files.front());
  else
    put_files(out, source.side_files);
  put<std::uint64_t>(out, source.tensors.size());
  for (const TensorInfo& t : source.tensors) {
    put_string(out, t.name);
    put_string(out, format(t.type).name);
    put<std::uint32_t>(out, static_cast<std::uint32_t>(t.shape.rank));
    for (int i = 0; i < t.shape.rank; ++i) put<std::int64_t>(out, t.shape[i]);
    if (t.shape.rank <= 1) put_bytes(out, *source.files[t.file], t.offset, t.bytes);
  }
  put<std::uint64_t>(out, matrices.size());
  for (const StoredMatrix& m : matrices) {
    put_string(out, m.name);
    put_string(out, format(m.type).name);
    put_string(out, m.layout);
    for (const std::int64_t n : {m.count, m.rows, m.cols}) put(out, n);
    for (const std::uint64_t n : {m.stride, m.scale_count, m.offset, m.checksum}) put(out, n);
  }
  return out;
}

std::string packed_header(const PackedHeader& header, std::string_view head) {
  std::string out = "DSV31PAK";
  const std::uint64_t payload = payload_offset(head.size());
  put(out, kPackedVersion);
  put(out, kPackingAbi);
  put<std::uint64_t>(out, payload + header.payload_bytes);
  put<std::uint64_t>(out, head.size());
  put(out, payload);
  put(out, header.payload_bytes);
  put(out, checksum(head.data(), head.size()));
  put(out, header.source_hash);
  put(out, header.source_bytes);
  put<std::uint32_t>(out, header.gguf ? 0 : 1);
  out.resize(static_cast<std::size_t>(kPackedHeaderBytes) - 8, '\0');
  put(out, checksum(out.data(), out.size()));
  return out;
}

SourceHash hash_source(const Checkpoint& source, const Watch& watch) {
  constexpr std::uint64_t kSlice = std::uint64_t{4} << 20;
  std::vector<std::shared_ptr<const Reader>> files = source.files;
  for (const Checkpoint::SideFile& f : source.side_files) files.push_back(f.file);
  SourceHash out;
  Checksum sum;
  std::vector<std::byte> buffer(static_cast<std::size_t>(kSlice));
  std::uint64_t total = 0;
  for (const auto& f : files) total = checked_add(total, f->size(), {"packed", "source"});
  for (const auto& f : files)
    for (std::uint64_t at = 0; at < f->size();) {
      const auto n = static_cast<std::size_t>(std::min(kSlice, f->size() - at));
      f->read_at(at, buffer.data(), n);
      sum.add(buffer.data(), n);
      at += n, out.bytes += n;
      watch.report(Stage::read_metadata, out.bytes, total);
    }
  out.hash = sum.value();
  return out;
}

}  // namespace dsv31::inline v1::io
