// Files and folders of the operating system behind Reader and Folder. Bytes come by pread, so that any number of threads share
// one descriptor and a truncated file is an error and no signal; a mapping is made only for a caller who asks for one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "dsv31/runtime.h"
#include "lib/io/mapping.h"

namespace dsv31::inline v1::io {

bool is_folder(const std::string& path);

// An open descriptor; closed exactly once.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) noexcept : fd_(fd) {}
  Descriptor(Descriptor&& o) noexcept : fd_(o.fd_) { o.fd_ = -1; }
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor();
  int get() const noexcept { return fd_; }
  bool valid() const noexcept { return fd_ >= 0; }

 private:
  int fd_;
};

// pread by its contract: bytes delivered (fewer than asked is no error), 0 at the end, -1 with errno. Tests pass their own.
struct PositionedRead {
  std::int64_t (*call)(void* context, void* dst, std::size_t n, std::uint64_t offset);
  void* context;
};

// Repeats short and interrupted reads until n bytes are there; io where the file ends before or the system reports an error.
void read_fully(const PositionedRead& read, std::uint64_t offset, void* dst, std::size_t n);

// A regular file that is already open; argument or io for anything else. A second name of the file (hard link) is refused where
// single_link is set.
std::shared_ptr<const Reader> file_reader(Descriptor fd, std::string_view name, bool single_link);

// The error of a failed system call on a name.
[[noreturn]] void fail_system(int error, std::string_view name);

}  // namespace dsv31::inline v1::io
