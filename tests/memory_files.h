// Readers and folders in memory, with counters, for tests.
#pragma once

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dsv31/runtime.h"

namespace dsv31::test {

// Owns its bytes; counts what is asked of it.
class StringReader final : public Reader {
 public:
  explicit StringReader(std::string bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size() const override { return bytes_.size(); }
  void read_at(std::uint64_t offset, void* dst, std::size_t n) const override {
    if (offset > bytes_.size() || n > bytes_.size() - offset) throw Error(Code::io, "test", "read outside the file");
    std::memcpy(dst, bytes_.data() + offset, n);
    ++reads;
    std::uint64_t end = read_end;
    while (offset + n > end && !read_end.compare_exchange_weak(end, offset + n)) {
    }
  }
  mutable std::atomic<std::uint64_t> reads = 0;     // workers read at the same time
  mutable std::atomic<std::uint64_t> read_end = 0;  // one past the last byte that was ever read

 private:
  std::string bytes_;
};

inline std::shared_ptr<const StringReader> reader_of(std::string bytes) {
  return std::make_shared<StringReader>(std::move(bytes));
}

// A sparse file: a head, then zeros.
class SparseReader final : public Reader {
 public:
  SparseReader(std::string head, std::uint64_t size) : head_(std::move(head)), size_(size) {}
  std::uint64_t size() const override { return size_; }
  void read_at(std::uint64_t offset, void* dst, std::size_t n) const override {
    if (offset > size_ || n > size_ - offset) throw Error(Code::io, "test", "read outside the file");
    std::memset(dst, 0, n);
    if (offset < head_.size()) std::memcpy(dst, head_.data() + offset, std::min<std::size_t>(n, head_.size() - offset));
  }

 private:
  std::string head_;
  std::uint64_t size_;
};

class MemoryFolder final : public Folder {
 public:
  MemoryFolder() = default;
  explicit MemoryFolder(std::map<std::string, std::string> f) : files(std::move(f)) {}
  std::shared_ptr<const Reader> open(std::string_view name) const override {
    opened.emplace_back(name);
    const auto it = files.find(std::string(name));
    return it == files.end() ? nullptr : reader_of(it->second);
  }
  std::map<std::string, std::string> files;
  mutable std::vector<std::string> opened;
};

}  // namespace dsv31::test
