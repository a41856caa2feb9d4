// A folder of the file system for one test, gone with it.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "dsv31/error.h"

namespace dsv31::test {

class ScratchFolder {
 public:
  explicit ScratchFolder(const std::string& name)
      : path_((std::filesystem::temp_directory_path() / ("dsv31-" + name + "-XXXXXX")).string()) {
    if (mkdtemp(path_.data()) == nullptr) throw Error(Code::io, "test", "no scratch folder");
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace dsv31::test
