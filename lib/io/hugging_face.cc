#include "lib/io/hugging_face.h"

#include <fmt/format.h>

#include "lib/io/safetensors.h"

namespace dsv31::inline v1::io {

namespace {

constexpr std::string_view kIndexName = "model.safetensors.index.json";

std::shared_ptr<const Reader> open_side_file(const Folder& folder, std::string_view name, Checkpoint& c) {
  std::shared_ptr<const Reader> file = folder.open(name);
  if (file != nullptr) c.side_files.push_back({std::string(name), file});
  return file;
}

Json read_json(const Folder& folder, std::string_view name, const OpenLimits& limits, Checkpoint& c) {
  const std::shared_ptr<const Reader> file = open_side_file(folder, name, c);
  if (file == nullptr) return {};
  Json json = parse_json(read_text(*file, limits.max_text_bytes, name), name);
  if (!json.is_object()) throw Error(Code::format, name, fmt::format("value: got {}, expected an object", json.kind()));
  return json;
}

// A shard is a file of this folder: nothing that could lead out of it.
void check_shard_name(std::string_view tensor, std::string_view file) {
  if (file.empty() || file.size() > 255 || file.find_first_of(std::string_view("/\\:\0", 4)) != file.npos ||
      file.find("..") != file.npos || !valid_utf8(file))
    throw Error(Code::argument, kIndexName,
                fmt::format("{}: got a shard name with a separator, \"..\" or too many bytes, expected a file of the folder",
                            quoted(tensor)));
}

void open_sharded(const Folder& folder, const Reader& index_file, const Watch& watch, const OpenLimits& limits, Checkpoint& c) {
  const Json index = parse_json(read_text(index_file, limits.max_text_bytes, kIndexName), kIndexName);
  const Json* map = index.find("weight_map");
  if (map == nullptr || !map->is_object())
    throw Error(Code::format, kIndexName, "weight_map: got no object of this name, expected tensor names to files");
  const Json::Object& homes = map->as_object();
  if (homes.size() > limits.max_tensors)
    throw Error(Code::limit, kIndexName,
                fmt::format("weight_map: got {} tensors, expected at most {}", homes.size(), limits.max_tensors));

  std::vector<std::string_view> shards;
  std::vector<std::uint32_t> shard_of(homes.size());
  NameIndex shard_index;
  const auto shard_name = [&](std::uint32_t i) { return shards[i]; };
  for (std::size_t i = 0; i < homes.size(); ++i) {
    const auto& [tensor, home] = homes[i];
    if (!home.is_string())
      throw Error(Code::format, kIndexName, fmt::format("{}: got {}, expected the name of a file", quoted(tensor), home.kind()));
    const std::string_view file = home.as_string();
    const auto next = static_cast<std::uint32_t>(shards.size());
    const std::uint32_t known = shard_index.insert(file, next, shard_name, kIndexName);
    shard_of[i] = known == NameIndex::kNone ? next : known;
    if (known != NameIndex::kNone) continue;
    check_shard_name(tensor, file);
    if (shards.size() >= limits.max_shards)
      throw Error(Code::limit, kIndexName,
                  fmt::format("weight_map: got more than {} files, expected no more", limits.max_shards));
    shards.push_back(file);
  }

  std::vector<std::shared_ptr<const Reader>> files;
  std::uint64_t total = 0, done = 0;
  for (const std::string_view name : shards) {
    files.push_back(folder.open(name));
    if (files.back() == nullptr)
      throw Error(Code::mismatch, kIndexName,
                  fmt::format("{}: got no such file, expected every file that weight_map names", quoted(name)));
    total = checked_add(total, files.back()->size(), {kIndexName, name});
  }
  watch.report(Stage::read_metadata, 0, total);
  for (std::size_t i = 0; i < files.size(); ++i) {
    done += files[i]->size();
    Json metadata = read_safetensors(std::move(files[i]), shards[i], watch, limits, c);
    if (i == 0) c.file_metadata = std::move(metadata);
    watch.report(Stage::read_metadata, done, total);
  }
  for (std::size_t i = 0; i < homes.size(); ++i) {
    const TensorInfo* t = c.find(homes[i].first);
    if (t == nullptr || t->file != shard_of[i])
      throw Error(
          Code::mismatch, kIndexName,
          fmt::format("{}: got {}, expected it in {}", quoted(homes[i].first),
                      t == nullptr ? "no such tensor in any file" : "this tensor in another file", quoted(shards[shard_of[i]])));
  }
  if (c.tensors.size() > homes.size())
    c.warnings.push_back(
        fmt::format("[{}] {} tensors of the files are not in weight_map", kIndexName, c.tensors.size() - homes.size()));
}

}  // namespace

void read_side_files(const Folder& folder, const OpenLimits& limits, Checkpoint& c) {
  c.config = read_json(folder, "config.json", limits, c);
  c.generation_config = read_json(folder, "generation_config.json", limits, c);
  c.tokenizer_config = read_json(folder, "tokenizer_config.json", limits, c);
  c.tokenizer_json = open_side_file(folder, "tokenizer.json", c);
  if (const auto file = open_side_file(folder, "chat_template.jinja", c)) {
    c.chat_template_jinja = read_text(*file, limits.max_text_bytes, "chat_template.jinja");
    if (!valid_utf8(c.chat_template_jinja))
      throw Error(Code::format, "chat_template.jinja", "text: got broken UTF-8, expected UTF-8");
  }
}

Checkpoint open_hugging_face(const Folder* folder, std::shared_ptr<const Reader> weights, const OpenOptions& options) {
  const Watch watch(&options.progress, options.cancel);
  Checkpoint c;
  c.kind = Checkpoint::Kind::safetensors;
  if (folder != nullptr) read_side_files(*folder, options.limits, c);
  if (weights == nullptr) {
    if (c.config.is_null())
      throw Error(Code::not_found, "config.json", "file: got a folder without it, expected a Hugging Face model folder");
    weights = folder->open("model.safetensors");
  }
  if (weights != nullptr) {
    const std::uint64_t bytes = weights->size();
    watch.report(Stage::read_metadata, 0, bytes);
    c.file_metadata = read_safetensors(std::move(weights), "safetensors", watch, options.limits, c);
    watch.report(Stage::read_metadata, bytes, bytes);
  } else {
    const std::shared_ptr<const Reader> index = folder->open(kIndexName);
    if (index == nullptr)
      throw Error(Code::not_found, "model.safetensors",
                  "file: got a folder without it and without model.safetensors.index.json, expected one of them");
    open_sharded(*folder, *index, watch, options.limits, c);
  }
  if (!c.config.is_null()) check_fp8_scales(c);
  return c;
}

}  // namespace dsv31::inline v1::io
