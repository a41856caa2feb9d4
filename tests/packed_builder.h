// Writes packed files in memory from a checkpoint, with checksums that fit, until a test edits a field.
#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "lib/io/checkpoint.h"
#include "lib/io/checksum.h"
#include "lib/io/packed.h"

namespace dsv31::test {

template <class T>
void put_at(std::string& to, std::size_t at, T v) {
  std::memcpy(to.data() + at, &v, sizeof v);
}

struct PackedBuilder {
  io::Checkpoint source;
  std::vector<io::StoredMatrix> matrices;            // offsets and checksums are set by build
  std::function<void(std::string& head)> edit_head;  // before its checksum is taken
  std::function<void(std::string& header)> edit_header;

  void add(std::string name, DType type, std::int64_t rows, std::int64_t cols, std::uint64_t stride) {
    matrices.push_back({.name = std::move(name), .layout = "n16k4", .type = type, .rows = rows, .cols = cols, .stride = stride});
  }
  // What lays the matrices out and fills them with bytes that depend on their place.
  std::string build() {
    const std::uint64_t begin = io::payload_offset(io::packed_head(source, matrices).size());
    std::string payload;
    for (io::StoredMatrix& m : matrices) {
      const std::size_t at = payload.size(), bytes = static_cast<std::size_t>((m.bytes() + 63) / 64 * 64);
      payload.resize(at + bytes);
      for (std::size_t i = 0; i < bytes; ++i) payload[at + i] = static_cast<char>(i * 31 + at);
      m.offset = begin + at;
      m.checksum = io::checksum(payload.data() + at, bytes);
    }
    std::string head = io::packed_head(source, matrices);
    if (edit_head) edit_head(head);
    std::string header = io::packed_header({.gguf = source.kind == io::Checkpoint::Kind::gguf,
                                            .source_hash = 0x0123456789abcdefu,
                                            .source_bytes = 99,
                                            .payload_bytes = payload.size()},
                                           head);
    if (edit_header) {
      edit_header(header);
      reseal(header);
    }
    std::string file = header + head;
    file.resize(static_cast<std::size_t>(io::payload_offset(head.size())));
    return file + payload;
  }
  static void reseal(std::string& header) {
    const auto end = static_cast<std::size_t>(io::kPackedHeaderBytes) - 8;
    put_at(header, end, io::checksum(header.data(), end));
  }
};

}  // namespace dsv31::test
