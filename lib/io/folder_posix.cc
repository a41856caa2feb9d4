// A folder confines the names that come from files: an index or a split set must not reach anything outside. Every step is
// relative to the folder's descriptor and follows no link by itself; a symbolic link is read, and followed only to a plain name
// in the same folder. So there is no window between a check and its use.
//
// One layout leads out on purpose: the cache of Hugging Face's hub keeps models--NAME/snapshots/REVISION/FILE as a link to
// ../../blobs/HASH. Such a link is followed where the folder's parent is the entry `snapshots` of its own parent, to a name that
// is a hash in hex (SHA-1 or SHA-256), in a real folder `blobs` beside it.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
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

constexpr std::string_view kBlobs = "../../blobs/";

// The name of the blob that the link of a snapshot points to, or empty.
std::string blob_of(std::string_view target) {
  if (!target.starts_with(kBlobs)) return {};
  target.remove_prefix(kBlobs.size());
  const bool hash = (target.size() == 40 || target.size() == 64) && target.find_first_not_of("0123456789abcdef") == target.npos;
  return hash ? std::string(target) : std::string();
}

// The folder `blobs` that belongs to a snapshot, invalid for any other folder.
Descriptor blobs_of(const Descriptor& snapshot) {
  constexpr int kFolder = O_RDONLY | O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW;
  const Descriptor snapshots(openat(snapshot.get(), "..", kFolder));
  if (!snapshots.valid()) return Descriptor();
  const Descriptor model(openat(snapshots.get(), "..", kFolder));
  if (!model.valid()) return Descriptor();
  struct stat parent, named;
  if (fstat(snapshots.get(), &parent) != 0 || fstatat(model.get(), "snapshots", &named, AT_SYMLINK_NOFOLLOW) != 0 ||
      parent.st_dev != named.st_dev || parent.st_ino != named.st_ino)
    return Descriptor();
  return Descriptor(openat(model.get(), "blobs", kFolder));
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
      if (const std::string blob = blob_of(current); !blob.empty())
        if (const Descriptor blobs = blobs_of(fd_); blobs.valid()) return open_blob(blobs, blob, name);
      if (!plain(current))
        throw Error(Code::argument, "folder",
                    fmt::format("{}: got a symbolic link that leaves the folder, expected a file in it", quoted(name)));
    }
    throw Error(Code::argument, "folder",
                fmt::format("{}: got more than {} symbolic links, expected a file", quoted(name), kMaxLinks));
  }

 private:
  static std::shared_ptr<const Reader> open_blob(const Descriptor& blobs, const std::string& blob, std::string_view name) {
    Descriptor fd(openat(blobs.get(), blob.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
    if (fd.valid()) return file_reader(std::move(fd), name, true);
    if (errno != ELOOP && errno != EMLINK) fail_system(errno, name);
    throw Error(Code::argument, "folder", fmt::format("{}: got a blob that is a symbolic link, expected a file", quoted(name)));
  }

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
