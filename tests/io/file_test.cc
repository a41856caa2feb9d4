// Files and folders of the operating system.
#include "lib/io/file.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "lib/io/checkpoint.h"
#include "tests/expect_error.h"
#include "tests/gguf_builder.h"
#include "tests/safetensors_builder.h"

using namespace dsv31;
using namespace dsv31::io;
using namespace dsv31::test;
namespace fs = std::filesystem;

namespace {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "dsv31-io-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  void write(const std::string& name, const std::string& bytes) const { std::ofstream(*this / name, std::ios::binary) << bytes; }

 private:
  std::string path_;
};

std::size_t open_descriptors() {
  std::size_t n = 0;
  DIR* d = opendir("/proc/self/fd");
  REQUIRE(d != nullptr);
  while (readdir(d) != nullptr) ++n;
  closedir(d);
  return n;
}

std::string text_of(const Reader& r) {
  std::string s(static_cast<std::size_t>(r.size()), '\0');
  r.read_at(0, s.data(), s.size());
  return s;
}

// A file that delivers at most `most` bytes a call and is interrupted before each.
struct Slow {
  std::string bytes;
  std::size_t most = 1;
  bool interrupted = false;
  int calls = 0;
  int fail_with = 0;

  PositionedRead read() {
    return {[](void* context, void* dst, std::size_t n, std::uint64_t offset) -> std::int64_t {
              auto& s = *static_cast<Slow*>(context);
              ++s.calls;
              s.interrupted = !s.interrupted;
              if (s.interrupted) return errno = EINTR, -1;
              if (s.fail_with != 0) return errno = s.fail_with, -1;
              if (offset >= s.bytes.size()) return 0;
              const std::size_t k = std::min({n, s.most, s.bytes.size() - static_cast<std::size_t>(offset)});
              std::memcpy(dst, s.bytes.data() + offset, k);
              return static_cast<std::int64_t>(k);
            },
            this};
  }
};

}  // namespace

TEST_CASE("interrupted and short reads give the bytes of a full read") {
  Slow s{"0123456789"};
  std::string got(6, '\0');
  read_fully(s.read(), 3, got.data(), got.size());
  CHECK(got == "345678");
  CHECK(s.calls == 12);
  s = Slow{"0123456789", 4};
  read_fully(s.read(), 0, got.data(), got.size());
  CHECK(got == "012345");
  CHECK(s.calls == 4);
}

TEST_CASE("a file that ends early or reports an error is an io error with its offset") {
  Slow s{"0123"};
  char buffer[8];
  expect_error(Code::io, {"byte 4", "end of the file"}, [&] { read_fully(s.read(), 2, buffer, 4); });
  s = Slow{"0123"};
  s.fail_with = EIO;
  expect_error(Code::io, {"byte 0", "system error"}, [&] { read_fully(s.read(), 0, buffer, 4); });
}

TEST_CASE("a file is read at any place by any thread, and no descriptor stays") {
  const std::size_t before = open_descriptors();
  {
    TemporaryFolder tmp;
    std::string bytes(100'000, '\0');
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i % 251);
    tmp.write("f\xC3\xA9\xE6\x96\x87.bin", bytes);
    const auto reader = open_file(tmp / "f\xC3\xA9\xE6\x96\x87.bin");
    CHECK(reader->size() == bytes.size());
    std::vector<std::thread> threads;
    std::vector<int> wrong(4, 0);
    for (std::size_t t = 0; t < wrong.size(); ++t)
      threads.emplace_back([&, t] {
        char part[100];
        for (std::size_t at = t * 100; at + 100 <= bytes.size(); at += 400) {
          reader->read_at(at, part, 100);
          wrong[t] += std::memcmp(part, bytes.data() + at, 100) != 0;
        }
      });
    for (std::thread& t : threads) t.join();
    CHECK(wrong == std::vector<int>(4, 0));
    char one;
    expect_error(Code::io, {"byte 100000"}, [&] { reader->read_at(100'000, &one, 1); });
    expect_error(Code::io, {"read at byte"}, [&] { reader->read_at(~std::uint64_t{0}, &one, 1); });
    reader->read_at(100'000, &one, 0);
    const auto folder = open_folder(tmp.path());
    CHECK(folder->open("absent") == nullptr);
    CHECK(open_descriptors() > before);
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("a file stays the one that was opened when its name goes to another") {
  TemporaryFolder tmp;
  tmp.write("a", "old bytes");
  const auto reader = open_file(tmp / "a");
  tmp.write("b", "new bytes");
  fs::rename(tmp / "b", tmp / "a");
  CHECK(text_of(*reader) == "old bytes");
  fs::remove(tmp / "a");
  CHECK(text_of(*reader) == "old bytes");
}

TEST_CASE("a file that was cut after opening is an io error, read or mapped") {
  TemporaryFolder tmp;
  tmp.write("a", std::string(10'000, 'x'));
  const auto reader = open_file(tmp / "a");
  REQUIRE(truncate((tmp / "a").c_str(), 5000) == 0);
  char buffer[100];
  expect_error(Code::io, {"byte 5000", "end of the file"}, [&] { reader->read_at(4950, buffer, 100); });
  CHECK(reader->map(0, 100) == nullptr);
}

TEST_CASE("a mapping shows the bytes, is shared, and has bounds") {
  TemporaryFolder tmp;
  tmp.write("a", "0123456789");
  tmp.write("empty", "");
  const auto reader = open_file(tmp / "a");
  const auto* p = static_cast<const char*>(reader->map(3, 4));
  REQUIRE(p != nullptr);
  CHECK(std::string(p, 4) == "3456");
  CHECK(reader->map(0, 10) == p - 3);
  CHECK(reader->map(3, 8) == nullptr);
  CHECK(reader->map(~std::uint64_t{0}, 2) == nullptr);
  CHECK(open_file(tmp / "empty")->map(0, 0) == nullptr);
}

TEST_CASE("memory is a reader that maps to itself") {
  const char bytes[] = "abcdef";
  const auto reader = memory_reader(bytes, 6);
  CHECK(text_of(*reader) == "abcdef");
  CHECK(reader->map(2, 4) == bytes + 2);
  CHECK(reader->map(2, 5) == nullptr);
  char one;
  expect_error(Code::io, {"byte 6"}, [&] { reader->read_at(6, &one, 1); });
  CHECK(memory_reader(nullptr, 0)->size() == 0);
  expect_error(Code::argument, {"null"}, [] { memory_reader(nullptr, 1); });
}

TEST_CASE("a path that is absent, a folder, a pipe or broken is refused by kind") {
  TemporaryFolder tmp;
  REQUIRE(mkfifo((tmp / "pipe").c_str(), 0600) == 0);
  expect_error(Code::not_found, {"absent"}, [&] { open_file(tmp / "absent"); });
  expect_error(Code::not_found, {"absent"}, [&] { open_checkpoint(tmp / "absent"); });
  expect_error(Code::argument, {"regular file"}, [&] { open_file(tmp.path()); });
  expect_error(Code::argument, {"pipe", "regular file"}, [&] { open_file(tmp / "pipe"); });
  expect_error(Code::argument, {"path"}, [] { open_file(""); });
  expect_error(Code::argument, {"path"}, [] { open_file(std::string("a\0b", 3)); });
  expect_error(Code::not_found, {"absent"}, [&] { open_folder(tmp / "absent"); });
  tmp.write("file", "x");
  expect_error(Code::not_found, {"file"}, [&] { open_folder(tmp / "file"); });
}

TEST_CASE("S08 a folder opens plain names only") {
  TemporaryFolder tmp;
  fs::create_directory(tmp / "inner");
  tmp.write("secret", "x");
  tmp.write("inner/a", "inside");
  const auto folder = open_folder(tmp / "inner");
  CHECK(text_of(*folder->open("a")) == "inside");
  for (const std::string& name :
       {std::string("../secret"), tmp / "secret", std::string(".."), std::string("."), std::string(""), std::string("a/"),
        std::string("./a"), std::string("a\\b"), std::string("a\0", 2), std::string(300, 'a')})
    expect_error(Code::argument, {"plain name"}, [&] { folder->open(name); });
}

TEST_CASE("S08 G17 a link is followed inside its folder and refused where it leaves it") {
  TemporaryFolder tmp;
  fs::create_directory(tmp / "inner");
  tmp.write("secret", "x");
  tmp.write("inner/a", "inside");
  fs::create_symlink("a", tmp / "inner/good");
  fs::create_symlink("good", tmp / "inner/again");
  fs::create_symlink("../secret", tmp / "inner/up");
  fs::create_symlink(tmp / "secret", tmp / "inner/absolute");
  fs::create_symlink("up", tmp / "inner/by_step");
  fs::create_symlink("loop", tmp / "inner/loop");
  fs::create_symlink("nothing", tmp / "inner/dangling");
  fs::create_hard_link(tmp / "secret", tmp / "inner/hard");
  REQUIRE(mkfifo((tmp / "inner/pipe").c_str(), 0600) == 0);
  const auto folder = open_folder(tmp / "inner");
  CHECK(text_of(*folder->open("good")) == "inside");
  CHECK(text_of(*folder->open("again")) == "inside");
  for (const char* name : {"up", "absolute", "by_step"})
    expect_error(Code::argument, {name, "leaves the folder"}, [&] { folder->open(name); });
  expect_error(Code::argument, {"loop", "symbolic links"}, [&] { folder->open("loop"); });
  expect_error(Code::not_found, {"dangling"}, [&] { folder->open("dangling"); });
  expect_error(Code::argument, {"hard", "2 hard links"}, [&] { folder->open("hard"); });
  expect_error(Code::argument, {"pipe", "regular file"}, [&] { folder->open("pipe"); });
}

TEST_CASE("G17 S08 a split file or shard that is a link out of the folder is refused, its twin in the folder loads") {
  TemporaryFolder tmp;
  fs::create_directory(tmp / "model");
  for (std::uint16_t i = 0; i < 2; ++i) {
    GgufBuilder b;
    b.u16("split.no", i).u16("split.count", 2).i32("split.tensors.count", 2).tensor(i == 0 ? "a" : "b", {1.0f}, Shape(1));
    tmp.write("model/m-0000" + std::to_string(i + 1) + "-of-00002.gguf", b.build());
  }
  const std::string first = tmp / "model/m-00001-of-00002.gguf", second = tmp / "model/m-00002-of-00002.gguf";
  CHECK(open_checkpoint(first).tensors.size() == 2);
  fs::rename(second, tmp / "outside.gguf");
  fs::create_symlink("../outside.gguf", second);
  expect_error(Code::argument, {"m-00002-of-00002.gguf", "leaves the folder"}, [&] { open_checkpoint(first); });

  tmp.write("model/config.json", "{}");
  tmp.write("model/model.safetensors.index.json", R"({"weight_map":{"w":"s.safetensors"}})");
  tmp.write("model/s.safetensors", SafetensorsBuilder().tensor("w", {1.0f}, {1}).build());
  CHECK(open_checkpoint(tmp / "model").tensors.size() == 1);
  CHECK(open_checkpoint(tmp / "model/").tensors.size() == 1);
  CHECK(open_checkpoint(tmp / "model/s.safetensors").config.is_object());
  fs::rename(tmp / "model/s.safetensors", tmp / "outside.safetensors");
  fs::create_symlink("../outside.safetensors", tmp / "model/s.safetensors");
  expect_error(Code::argument, {"s.safetensors", "leaves the folder"}, [&] { open_checkpoint(tmp / "model"); });
}

TEST_CASE("S08 a snapshot of the hub's cache opens, and its links lead to its own blobs alone") {
  TemporaryFolder tmp;
  const std::string sha1(40, 'a'), sha256 = std::string(63, '0') + "f";
  const auto make = [&](const std::string& parent) {
    for (const std::string& folder : {std::string("hub"), "hub/" + parent, "hub/" + parent + "/revision"})
      fs::create_directory(tmp / folder);
    const std::string snapshot = tmp / ("hub/" + parent + "/revision");
    fs::create_symlink("../../blobs/" + sha1, snapshot + "/config.json");
    fs::create_symlink("../../blobs/" + sha256, snapshot + "/model.safetensors");
    return snapshot;
  };
  const std::string snapshot = make("snapshots");
  fs::create_directory(tmp / "hub/blobs");
  tmp.write("hub/blobs/" + sha1, "{}");
  tmp.write("hub/blobs/" + sha256, SafetensorsBuilder().tensor("w", {1.0f}, {1}).build());
  CHECK(open_checkpoint(snapshot).tensors.size() == 1);
  CHECK(open_checkpoint(snapshot + "/model.safetensors").tensors.size() == 1);
  fs::create_symlink("snapshots/revision", tmp / "hub/current");  // the caller may name it through a link
  CHECK(open_checkpoint(tmp / "hub/current").tensors.size() == 1);

  const auto folder = open_folder(snapshot);
  const auto refused = [&](const std::string& target, const char* why) {
    fs::remove(snapshot + "/link");
    fs::create_symlink(target, snapshot + "/link");
    expect_error(Code::argument, {"link", why}, [&] { folder->open("link"); });
  };
  tmp.write("hub/blobs/secret", "x");
  tmp.write("hub/" + sha1, "x");
  tmp.write(sha1, "x");
  const std::vector<std::string> out = {"../../blobs/secret",
                                        "../../blobs/../" + sha1,
                                        "../../" + sha1,
                                        "../../../" + sha1,
                                        "../../blobs/./" + sha1,
                                        "../../blobs/" + sha1 + "/",
                                        "../../blobs/" + sha1.substr(1),
                                        tmp / ("hub/blobs/" + sha1),
                                        "../blobs/" + sha1,
                                        "../../blobs",
                                        "../../blobs/"};
  for (const std::string& target : out) refused(target, "leaves the folder");
  fs::create_symlink("../../" + sha1, tmp / ("hub/blobs/" + std::string(40, 'b')));
  refused("../../blobs/" + std::string(40, 'b'), "blob that is a symbolic link");
  fs::create_hard_link(tmp / sha1, tmp / ("hub/blobs/" + std::string(40, 'c')));
  refused("../../blobs/" + std::string(40, 'c'), "2 hard links");
  fs::create_directory(tmp / ("hub/blobs/" + std::string(40, 'd')));
  refused("../../blobs/" + std::string(40, 'd'), "regular file");

  // The same links in a folder whose parent has another name, or beside a `blobs` that is itself a link.
  expect_error(Code::argument, {"config.json", "leaves the folder"}, [&] { open_checkpoint(make("revisions")); });
  fs::rename(tmp / "hub/blobs", tmp / "elsewhere");
  fs::create_symlink("../elsewhere", tmp / "hub/blobs");
  expect_error(Code::argument, {"config.json", "leaves the folder"}, [&] { open_checkpoint(snapshot); });
}

TEST_CASE("a path may itself be a link: the caller named it") {
  TemporaryFolder tmp;
  GgufBuilder b;
  tmp.write("m.gguf", b.tensor("a", {1.0f}, Shape(1)).build());
  fs::create_symlink("m.gguf", tmp / "link.gguf");
  fs::create_hard_link(tmp / "m.gguf", tmp / "hard.gguf");
  CHECK(open_checkpoint(tmp / "link.gguf").tensors.size() == 1);
  CHECK(open_checkpoint(tmp / "hard.gguf").tensors.size() == 1);
}
