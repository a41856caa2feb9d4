#include "lib/io/checkpoint.h"

#include <fmt/format.h>

#include <new>

#include "lib/io/bytes.h"
#include "lib/io/file.h"
#include "lib/io/gguf.h"
#include "lib/io/hugging_face.h"
#include "lib/io/packed.h"

namespace dsv31::inline v1::io {

namespace {

bool starts_like_safetensors(const Reader& file) {
  char byte = 0;
  if (file.size() < 9) return false;
  file.read_at(8, &byte, 1);
  return byte == '{';
}

bool is_safetensors(const Reader& file, std::string_view name) {
  return name.ends_with(".safetensors") || (!has_gguf_magic(file) && !name.ends_with(".gguf") && starts_like_safetensors(file));
}

Checkpoint open_in(std::shared_ptr<const Reader> file, const Folder* folder, std::string_view name, const OpenOptions& options) {
  if (has_packed_magic(*file)) return open_packed(std::move(file), options);
  if (is_safetensors(*file, name)) return open_hugging_face(folder, std::move(file), options);
  return open_gguf(std::move(file), folder, name, options);
}

// Memory that a header asks for within the limits may still not be there.
template <class F>
Checkpoint guarded(const F& open) {
  try {
    return open();
  } catch (const std::bad_alloc&) {
    throw Error(Code::no_memory, "open", "metadata: got no memory for the tables of this file");
  }
}

}  // namespace

const TensorInfo* Checkpoint::find(std::string_view name) const noexcept {
  const std::uint32_t i = index_.find(name, [this](std::uint32_t at) -> std::string_view { return tensors[at].name; });
  return i == NameIndex::kNone ? nullptr : &tensors[i];
}

void Checkpoint::reserve(std::size_t n) {
  tensors.reserve(n);
  index_.reserve(n);
}

void Checkpoint::add(TensorInfo tensor, std::string_view where) {
  const auto at = static_cast<std::uint32_t>(tensors.size());
  const std::uint32_t taken =
      index_.insert(tensor.name, at, [this](std::uint32_t i) -> std::string_view { return tensors[i].name; }, where);
  count.probes = index_.probes();
  if (taken != NameIndex::kNone) {
    const bool same_file = tensors[taken].file == tensor.file;
    throw Error(same_file ? Code::format : Code::mismatch, where,
                fmt::format("{}: got this tensor in {}, expected it once", quoted(tensor.name),
                            same_file ? "one file twice" : "two files of the set"));
  }
  tensors.push_back(std::move(tensor));
}

Checkpoint open_checkpoint(const std::string& path, const OpenOptions& options) {
  return guarded([&] {
    if (is_folder(path)) return open_hugging_face(open_folder(path).get(), nullptr, options);
    std::shared_ptr<const Reader> file = open_file(path);
    const std::size_t slash = path.rfind('/');
    const std::string name = slash == path.npos ? path : path.substr(slash + 1);
    const std::string parent = slash == path.npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
    const bool alone = has_packed_magic(*file) || (!is_safetensors(*file, name) && !is_split_name(name));
    const std::shared_ptr<const Folder> folder = alone ? nullptr : open_folder(parent);
    return open_in(std::move(file), folder.get(), name, options);
  });
}

Checkpoint open_checkpoint(std::shared_ptr<const Reader> file, const OpenOptions& options) {
  if (file == nullptr) throw Error(Code::argument, "open", "reader: got null, expected a reader");
  return guarded([&] { return open_in(std::move(file), nullptr, {}, options); });
}

Checkpoint open_checkpoint(std::shared_ptr<const Folder> folder, const std::string& entry, const OpenOptions& options) {
  if (folder == nullptr) throw Error(Code::argument, "open", "folder: got null, expected a folder");
  return guarded([&] {
    if (entry.empty()) return open_hugging_face(folder.get(), nullptr, options);
    std::shared_ptr<const Reader> file = folder->open(entry);
    if (file == nullptr)
      throw Error(Code::not_found, "open", fmt::format("{}: got no such file in the folder, expected one", quoted(entry)));
    return open_in(std::move(file), folder.get(), entry, options);
  });
}

}  // namespace dsv31::inline v1::io
