// A folder of files that the library writes. It is new: nothing of the caller's is ever replaced.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/io/output_file.h"

namespace dsv31::inline v1::io {

// Names of the regular files in a folder, sorted. Throws not_found or io.
std::vector<std::string> list_files(const std::string& folder);

// Makes the folder, whose parent exists; one that is there must be empty (else argument). What was created in it is removed again
// by the destructor, unless keep() was called.
class OutputFolder {
 public:
  explicit OutputFolder(std::string path);
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  ~OutputFolder();

  // A new file of a plain name, for the caller to commit.
  std::unique_ptr<OutputFile> create(std::string_view name);
  // A whole file.
  void write(std::string_view name, std::string_view bytes);
  void keep() noexcept { created_.clear(), made_ = false; }

 private:
  std::string path_;
  std::vector<std::string> created_;
  bool made_ = false;
};

}  // namespace dsv31::inline v1::io
