#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "dsv31/error.h"
#include "lib/io/bytes.h"
#include "lib/io/output_file.h"

namespace dsv31::inline v1::io {

namespace {

constexpr std::string_view kSuffix = ".partial";

[[noreturn]] void fail(std::string_view what, const std::string& path) {
  throw Error(Code::io, "output", fmt::format("{}: got system error {}, expected to {} it", quoted(path), errno, what));
}

Descriptor create(const std::string& path, const std::string& partial) {
  if (path.empty() || path.find('\0') != path.npos)
    throw Error(Code::argument, "output", "path: got an empty one or a zero byte, expected a path in UTF-8");
  Descriptor fd(::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!fd.valid()) fail_system(errno, partial);
  return fd;
}

}  // namespace

OutputFile::OutputFile(std::string path)
    : path_(std::move(path)), partial_(path_ + std::string(kSuffix)), fd_(create(path_, partial_)) {}

OutputFile::~OutputFile() {
  if (!committed_) ::unlink(partial_.c_str());
}

void OutputFile::write_at(std::uint64_t offset, const void* src, std::size_t n) {
  constexpr std::size_t kSlice = std::size_t{1} << 30;  // some systems refuse more than 2 GiB a call
  const auto* from = static_cast<const std::byte*>(src);
  while (n > 0) {
    const ssize_t put = pwrite(fd_.get(), from, std::min(n, kSlice), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) fail("write", path_);
    const auto k = static_cast<std::size_t>(put);
    from += k, offset += k, n -= k;
  }
}

void OutputFile::commit() {
  if (fsync(fd_.get()) != 0) fail("store", path_);
  if (std::rename(partial_.c_str(), path_.c_str()) != 0) fail("name", path_);
  committed_ = true;
}

}  // namespace dsv31::inline v1::io
