// A folder confines the names that come from files: an index or a split set must not reach anything outside. Every step is
// relative to the folder's descriptor and follows no link by itself; a symbolic link is read, and followed only to a plain name
// in the same folder. So there is no window between a check and its use.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "lib/io/bytes.h"
#include "lib/io/file.h"

namespace dsv31::inline v1 {

namespace io {

namespace {

constexpr int kMaxLinks = 8;
constexpr std::size_t kMaxName = 255;

bool plain(std::string_view name) {
  return !name.empty() && name.size() <= kMaxName && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

class FileFolder final : public Folder {
 public:
  explicit FileFolder(Descriptor fd) : fd_(std::move(fd)) {}

  std::shared_ptr<const Reader> open(std::string_view name) const override {
    if (!plain(name))
      throw Error(Code::argument, "folder",
                  fmt::format("{}: got a path, expected the plain name of a file of the folder", quoted(name)));
    std::string current(name);
    for (int links = 0; links <= kMaxLinks; ++links) {
      Descriptor fd(openat(fd_.get(), current.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
      if (fd.valid()) return file_reader(std::move(fd), name, true);
      if (errno == ENOENT && links == 0) return nullptr;
      if (errno != ELOOP && errno != EMLINK) fail_system(errno, name);  // both say: a symbolic link
      char target[kMaxName + 2];
      const ssize_t n = readlinkat(fd_.get(), current.c_str(), target, sizeof target);
      if (n < 0) fail_system(errno, name);
      current.assign(target, static_cast<std::size_t>(n));
      if (!plain(current))
        throw Error(Code::argument, "folder",
                    fmt::format("{}: got a symbolic link that leaves the folder, expected a file in it", quoted(name)));
    }
    throw Error(Code::argument, "folder",
                fmt::format("{}: got more than {} symbolic links, expected a file", quoted(name), kMaxLinks));
  }

 private:
  Descriptor fd_;
};

}  // namespace

}  // namespace io

std::shared_ptr<const Folder> open_folder(const std::string& path) {
  if (path.empty() || path.find('\0') != path.npos)
    throw Error(Code::argument, "open", "path: got an empty one or a zero byte, expected a path in UTF-8");
  io::Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY));
  if (!fd.valid()) io::fail_system(errno, path);
  return std::make_shared<io::FileFolder>(std::move(fd));
}

}  // namespace dsv31::inline v1
