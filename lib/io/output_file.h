// A new file that appears under its name only when it is whole: bytes go to a file beside it, which commit() brings to the disk
// and renames. A file of the same name is replaced at that moment; readers that have the old one open keep it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "lib/io/file.h"

namespace dsv31::inline v1::io {

class OutputFile {
 public:
  // Throws argument, not_found or io, naming the path.
  explicit OutputFile(std::string path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();  // removes what was not committed

  void write_at(std::uint64_t offset, const void* src, std::size_t n);  // throws io
  void commit();                                                        // throws io

 private:
  std::string path_, partial_;
  Descriptor fd_;
  bool committed_ = false;
};

}  // namespace dsv31::inline v1::io
