// Split sets: NAME-00001-of-00003.gguf and so on. The first file has all key-values; each has split.no (from 0), split.count and
// split.tensors.count, and its own tensors with offsets from its own data.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "lib/io/gguf.h"

namespace dsv31::inline v1::io {

namespace {

constexpr std::int64_t kMaxFiles = 99'999;  // five digits

// "-00001-of-00003.gguf": 20 characters.
struct SplitName {
  std::string_view prefix;
  std::int64_t number = 0, count = 0;  // 0 where the name is no split name
};

std::int64_t digits(std::string_view five) {
  std::int64_t v = 0;
  const auto [end, error] = std::from_chars(five.data(), five.data() + five.size(), v);
  return error == std::errc() && end == five.data() + five.size() && five[0] != '-' ? v : 0;
}

SplitName parse_name(std::string_view name) {
  if (name.size() < 20) return {};
  const std::string_view tail = name.substr(name.size() - 20);
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != ".gguf") return {};
  const SplitName s{name.substr(0, name.size() - 20), digits(tail.substr(1, 5)), digits(tail.substr(10, 5))};
  return s.number > 0 && s.count > 0 ? s : SplitName{};
}

[[noreturn]] void fail(Code code, std::string_view field, const std::string& what) {
  throw Error(code, "gguf", fmt::format("{}: {}", quoted(field), what));
}

void want(const Metadata& m, std::string_view file, std::string_view key, std::int64_t value) {
  const std::int64_t got = m.integer(key);
  if (got != value)
    fail(Code::mismatch, file, fmt::format("got {} = {}, expected {} as in the rest of its set", key, got, value));
}

}  // namespace

bool is_split_name(std::string_view name) { return parse_name(name).number > 0; }

Checkpoint open_gguf(std::shared_ptr<const Reader> first, const Folder* folder, std::string_view name,
                     const OpenOptions& options) {
  const Watch watch(&options.progress, options.cancel);
  Checkpoint c;
  c.kind = Checkpoint::Kind::gguf;
  std::uint64_t done = first->size();
  watch.report(Stage::read_metadata, 0, done);
  c.metadata = read_gguf(std::move(first), "gguf", watch, options.limits, c);

  const auto max_files = std::min<std::int64_t>(kMaxFiles, static_cast<std::int64_t>(options.limits.max_shards));
  const std::int64_t count = c.metadata.integer_or("split.count", 1, 0, max_files);
  if (count > 1) {
    if (const std::int64_t no = c.metadata.integer("split.no"); no != 0)
      fail(Code::argument, "split.no", fmt::format("got file {} of a split set, expected its first (split.no 0)", no));
    const std::int64_t total = c.metadata.integer("split.tensors.count", 0);
    const SplitName split = parse_name(name);
    if (folder == nullptr || split.number == 0)
      fail(Code::argument, "split.count",
           fmt::format("got the first of {} files, expected them in one folder as NAME-00001-of-{:05}.gguf", count, count));
    if (split.number != 1 || split.count != count)
      fail(Code::mismatch, "split.count",
           fmt::format("got {} for the file named {} of {}, expected the numbers of its name", count, split.number, split.count));

    for (std::int64_t i = 2; i <= count; ++i) {
      const std::string file = fmt::format("{}-{:05}-of-{:05}.gguf", split.prefix, i, count);
      std::shared_ptr<const Reader> reader = folder->open(file);
      if (reader == nullptr) fail(Code::mismatch, file, fmt::format("got no such file, expected all {} files of the set", count));
      done += reader->size();
      const Metadata m = read_gguf(std::move(reader), fmt::format("gguf file {}", i), watch, options.limits, c);
      want(m, file, "split.no", i - 1);
      want(m, file, "split.count", count);
      want(m, file, "split.tensors.count", total);
      constexpr std::string_view architecture = "general.architecture";
      if (m.has(architecture) && m.string(architecture) != c.metadata.string(architecture))
        fail(Code::mismatch, file, "got another general.architecture, expected that of the first file");
      watch.check();
    }
    if (c.tensors.size() != static_cast<std::uint64_t>(total))
      fail(Code::mismatch, "split.tensors.count", fmt::format("got {} tensors in the set, expected {}", c.tensors.size(), total));
  }
  watch.report(Stage::read_metadata, done, done);
  return c;
}

}  // namespace dsv31::inline v1::io
