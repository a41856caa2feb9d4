#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "lib/io/bytes.h"
#include "lib/io/output_folder.h"

namespace dsv31::inline v1::io {

namespace {

struct CloseDir {
  void operator()(DIR* d) const noexcept { closedir(d); }
};

// Names in a folder but "." and "..".
std::vector<std::string> list(const std::string& path) {
  const std::unique_ptr<DIR, CloseDir> dir(opendir(path.c_str()));
  if (dir == nullptr) fail_system(errno, path);
  std::vector<std::string> out;
  while (const dirent* e = readdir(dir.get())) {
    const std::string_view name = e->d_name;
    if (name != "." && name != "..") out.emplace_back(name);
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

std::vector<std::string> list_files(const std::string& folder) {
  std::vector<std::string> out = list(folder);
  std::erase_if(out, [&](const std::string& name) {
    struct stat s{};
    return stat((folder + "/" + name).c_str(), &s) != 0 || !S_ISREG(s.st_mode);
  });
  return out;
}

OutputFolder::OutputFolder(std::string path) : path_(std::move(path)) {
  if (path_.empty() || path_.find('\0') != path_.npos)
    throw Error(Code::argument, "write", "folder: got an empty path or a zero byte, expected a path in UTF-8");
  if (mkdir(path_.c_str(), 0777) == 0) {
    made_ = true;
  } else if (errno != EEXIST) {
    fail_system(errno, path_);
  } else if (!is_folder(path_) || !list(path_).empty()) {
    throw Error(Code::argument, "write",
                fmt::format("{}: got a folder with files or no folder, expected an empty or a new one", quoted(path_)));
  }
}

OutputFolder::~OutputFolder() {
  for (const std::string& name : created_) unlink((path_ + "/" + name).c_str());
  if (made_) rmdir(path_.c_str());
}

std::unique_ptr<OutputFile> OutputFolder::create(std::string_view name) {
  created_.emplace_back(name);
  return std::make_unique<OutputFile>(path_ + "/" + created_.back());
}

void OutputFolder::write(std::string_view name, std::string_view bytes) {
  const auto file = create(name);
  file->write_at(0, bytes.data(), bytes.size());
  file->commit();
}

}  // namespace dsv31::inline v1::io
