#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/io/bytes.h"
#include "lib/io/file.h"

namespace dsv31::inline v1 {

namespace io {

namespace {

class FileReader final : public Reader {
 public:
  FileReader(Descriptor fd, std::uint64_t size) : fd_(std::move(fd)), size_(size) {}

  std::uint64_t size() const override { return size_; }

  void read_at(std::uint64_t offset, void* dst, std::size_t n) const override {
    if (offset > size_ || n > size_ - offset)
      throw Error(Code::io, "file",
                  fmt::format("read at byte {}: got a file of {} bytes, expected {} bytes there", offset, size_, n));
    int fd = fd_.get();
    const auto call = [](void* context, void* to, std::size_t count, std::uint64_t at) -> std::int64_t {
      return pread(*static_cast<int*>(context), to, count, static_cast<off_t>(at));
    };
    read_fully({call, &fd}, offset, dst, n);
  }

  const void* map(std::uint64_t offset, std::size_t n) const override {
    if (offset > size_ || n > size_ - offset) return nullptr;
    const std::lock_guard lock(mutex_);
    if (mapping_ == nullptr) mapping_ = Mapping::create(fd_.get(), size_);
    return mapping_ == nullptr ? nullptr : mapping_->data() + offset;
  }

 private:
  Descriptor fd_;
  std::uint64_t size_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<Mapping> mapping_;  // guarded by mutex_
};

class MemoryReader final : public Reader {
 public:
  MemoryReader(const void* data, std::size_t size) : data_(static_cast<const std::byte*>(data)), size_(size) {}
  std::uint64_t size() const override { return size_; }
  void read_at(std::uint64_t offset, void* dst, std::size_t n) const override {
    if (offset > size_ || n > size_ - offset)
      throw Error(Code::io, "memory",
                  fmt::format("read at byte {}: got {} bytes in all, expected {} bytes there", offset, size_, n));
    std::copy_n(data_ + offset, n, static_cast<std::byte*>(dst));
  }
  const void* map(std::uint64_t offset, std::size_t n) const override {
    return offset > size_ || n > size_ - offset ? nullptr : data_ + offset;
  }

 private:
  const std::byte* data_;
  std::size_t size_;
};

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

void fail_system(int error, std::string_view name) {
  const Code code = error == ENOENT || error == ENOTDIR ? Code::not_found : error == ENOMEM ? Code::no_memory : Code::io;
  const std::string reason = error == ENOENT || error == ENOTDIR  ? "no such file or folder"
                             : error == EACCES || error == EPERM  ? "no permission"
                             : error == EMFILE || error == ENFILE ? "too many open files"
                             : error == ENAMETOOLONG              ? "a name that is too long"
                                                                  : fmt::format("system error {}", error);
  throw Error(code, "open", fmt::format("{}: got {}, expected a readable file", quoted(name), reason));
}

void read_fully(const PositionedRead& read, std::uint64_t offset, void* dst, std::size_t n) {
  constexpr std::size_t kSlice = std::size_t{1} << 30;  // some systems refuse more than 2 GiB a call
  auto* to = static_cast<std::byte*>(dst);
  while (n > 0) {
    const std::int64_t got = read.call(read.context, to, std::min(n, kSlice), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw Error(Code::io, "file", fmt::format("read at byte {}: got system error {}, expected {} bytes", offset, errno, n));
    if (got == 0)
      throw Error(Code::io, "file", fmt::format("read at byte {}: got the end of the file, expected {} more bytes", offset, n));
    const std::size_t k = std::min(static_cast<std::size_t>(got), n);
    to += k, offset += k, n -= k;
  }
}

std::shared_ptr<const Reader> file_reader(Descriptor fd, std::string_view name, bool single_link) {
  struct stat s{};
  if (fstat(fd.get(), &s) != 0) fail_system(errno, name);
  if (!S_ISREG(s.st_mode))
    throw Error(Code::argument, "open", fmt::format("{}: got a folder, pipe or device, expected a regular file", quoted(name)));
  if (single_link && s.st_nlink > 1)
    throw Error(Code::argument, "open",
                fmt::format("{}: got a file with {} hard links, expected one that belongs to its folder alone", quoted(name),
                            s.st_nlink));
  return std::make_shared<FileReader>(std::move(fd), static_cast<std::uint64_t>(s.st_size));
}

bool is_folder(const std::string& path) {
  struct stat s{};
  return path.find('\0') == path.npos && stat(path.c_str(), &s) == 0 && S_ISDIR(s.st_mode);
}

}  // namespace io

std::shared_ptr<const Reader> open_file(const std::string& path) {
  if (path.empty() || path.find('\0') != path.npos)
    throw Error(Code::argument, "open", "path: got an empty one or a zero byte, expected a path in UTF-8");
  // Not blocking: opening a pipe would wait for its writer.
  io::Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) io::fail_system(errno, path);
  return io::file_reader(std::move(fd), path, false);
}

std::shared_ptr<const Reader> memory_reader(const void* data, std::size_t size) {
  if (data == nullptr && size > 0)
    throw Error(Code::argument, "memory_reader", fmt::format("data: got null for {} bytes, expected a pointer", size));
  return std::make_shared<io::MemoryReader>(data, size);
}

}  // namespace dsv31::inline v1
