// Packed files through the public API: the same bits as the source, in place, from one file for every instruction set.
#include "lib/io/packed.h"

#include <dirent.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "lib/io/checksum.h"
#include "tests/api/fixtures.h"
#include "tests/catch.h"
#include "tests/expect_error.h"
#include "tests/memory_files.h"

using namespace dsv31;
using namespace dsv31::test;

namespace {

class PackedFile {
 public:
  explicit PackedFile(const std::string& source, const Runtime& runtime = runtime_with(2)) {
    std::string folder = (std::filesystem::temp_directory_path() / "dsv31-packed-XXXXXX").string();
    REQUIRE(mkdtemp(folder.data()) != nullptr);
    folder_ = folder;
    Model::pack(runtime, source, path());
  }
  PackedFile(const PackedFile&) = delete;
  ~PackedFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string path() const { return folder_ + "/model.dsv31"; }
  std::string bytes() const {
    std::ifstream file(path(), std::ios::binary);
    std::stringstream out;
    out << file.rdbuf();
    return out.str();
  }
  std::size_t files() const {
    std::size_t n = 0;
    for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator(folder_)) ++n;
    return n;
  }

 private:
  std::string folder_;
};

int mappings(const std::string& path) {
  std::ifstream maps("/proc/self/maps");
  int n = 0;
  for (std::string line; std::getline(maps, line);) n += line.find(path) != std::string::npos;
  return n;
}
int descriptors() {
  int n = 0;
  DIR* d = opendir("/proc/self/fd");
  REQUIRE(d != nullptr);
  while (readdir(d)) ++n;
  closedir(d);
  return n;
}

// Bytes at an address that is no multiple of 64.
class MisplacedReader final : public Reader {
 public:
  explicit MisplacedReader(const std::string& bytes) : memory_(bytes.size() + 128), at_(memory_.data()) {
    while (reinterpret_cast<std::uintptr_t>(at_) % 64 != 8) ++at_;
    std::memcpy(at_, bytes.data(), bytes.size());
    size_ = bytes.size();
  }
  std::uint64_t size() const override { return size_; }
  void read_at(std::uint64_t offset, void* dst, std::size_t n) const override { std::memcpy(dst, at_ + offset, n); }
  const void* map(std::uint64_t offset, std::size_t) const override { return at_ + offset; }

 private:
  std::vector<char> memory_;
  char* at_;
  std::size_t size_;
};

}  // namespace

TEST_CASE("a packed model of every architecture and container has the bits of its source") {
  std::vector<std::string> sources{DSV31_TINY_MODEL};
  for (const char* name : {"deepseek_v2", "deepseek_v2_lite", "deepseek_v3", "deepseek_v32", "deepseek_v3_bf16",
                           "deepseek_v3_fp8", "deepseek_v3_mtp", "gemma3", "llama", "llama3_rope", "qwen2", "qwen3", "qwen3_moe"})
    sources.push_back(random_model(name));
  for (const std::string& source : sources) {
    INFO(source);
    PackedFile packed(source);
    CHECK(packed.files() == 1);
    Model::verify_file(packed.path());
    Model a = Model::open(runtime_with(2), source), b = Model::open(runtime_with(1), packed.path());
    auto ids = made_tokens(40, 3, a.info().vocab_size);
    for (const ComputeOptions& c : {ComputeOptions{}, ComputeOptions{.exact = true}})
      CHECK(same_bits(all_logits(a, ids, c), all_logits(b, ids, c)));
    CHECK(a.info().architecture == b.info().architecture);
    CHECK(a.info().name == b.info().name);
    CHECK(a.info().parameters == b.info().parameters);
    CHECK(a.info().weight_bytes == b.info().weight_bytes);
    CHECK(a.info().active_bytes == b.info().active_bytes);
    CHECK(a.info().extra_tensors == b.info().extra_tensors);
    CHECK(a.info().tensors.size() == b.info().tensors.size());
    CHECK(a.info().source_hash.empty());
    CHECK(b.info().source_hash.size() == 16);
    CHECK(a.has_tokenizer() == b.has_tokenizer());
    CHECK(a.has_chat_template() == b.has_chat_template());
    if (a.has_tokenizer()) {
      const char* text = "The capital of France is Paris. 1 + 1 = 2\n";
      CHECK(a.tokenizer().encode(text) == b.tokenizer().encode(text));
      CHECK(a.tokenizer().vocab_size() == b.tokenizer().vocab_size());
    }
  }
}

TEST_CASE("the draft layer is packed along, and a model opens with or without it") {
  const std::string source = random_model("deepseek_v3_mtp");
  PackedFile packed(source);
  const auto tokens = [](const std::string& path, bool mtp) {
    Model model = Model::open(runtime_with(1), path, {.mtp = mtp});
    Session s(model);
    s.append(made_tokens(20, 1, 320));
    auto r = s.generate({.max_tokens = 12,
                         .sampler = SamplerOptions::greedy(),
                         .ignore_end_of_generation = true,
                         .draft = mtp ? Draft::mtp : Draft::none});
    return r.tokens;
  };
  CHECK(tokens(packed.path(), true) == tokens(source, false));
  CHECK(tokens(packed.path(), false) == tokens(source, false));
}

TEST_CASE("the file is the same for every instruction set and thread count, and knows its source") {
  PackedFile first(DSV31_TINY_MODEL, runtime_with(1, "generic"));
  for (const std::string& isa : available_isas()) {
    PackedFile other(DSV31_TINY_MODEL, runtime_with(3, isa));
    CHECK(first.bytes() == other.bytes());
    Model model = Model::open(runtime_with(1, isa), first.path());
    Model source = Model::open(runtime_with(1, "generic"), DSV31_TINY_MODEL);
    auto ids = made_tokens(9, 2, 320);
    CHECK(same_bits(all_logits(model, ids, {}), all_logits(source, ids, {})));
  }
  std::ifstream file(DSV31_TINY_MODEL, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  const std::string data = bytes.str();
  CHECK(Model::open(runtime_with(1), first.path()).info().source_hash ==
        io::checksum_text(io::checksum(data.data(), data.size())));
  CHECK(static_cast<double>(first.bytes().size()) <=
        1.06 * static_cast<double>(data.size()));  // 64 rows and less are padded to strips
}

TEST_CASE("weights are used in the mapping, which lives as long as the model and its sessions") {
  PackedFile packed(DSV31_TINY_MODEL);
  const int d = descriptors();
  Runtime runtime = runtime_with(1);
  {
    std::optional<Session> session;
    {
      Model model = Model::open(runtime, packed.path());
      CHECK(mappings(packed.path()) == 1);
      const MemoryPlan plan = model.memory({.context = 256});
      CHECK(plan.mapped > 7'000'000);
      CHECK(plan.weights < 100'000);
      CHECK(plan.total == plan.weights + plan.cache + plan.scratch);
      CHECK(runtime.memory().weights == plan.weights);
      CHECK(model.info().packed_bytes == plan.weights + plan.mapped);
      const MemoryPlan before = Model::plan(runtime, packed.path(), {.context = 256});
      CHECK(before.total == plan.total);
      CHECK(before.mapped == plan.mapped);
      session.emplace(model);
    }
    CHECK(mappings(packed.path()) == 1);
    session->append(made_tokens(20, 1, 320));
  }
  CHECK(mappings(packed.path()) == 0);
  CHECK(descriptors() == d);
  {
    Model model = Model::open(runtime, packed.path(), {.map = false});
    CHECK(mappings(packed.path()) == 0);
    CHECK(descriptors() == d);
    CHECK(model.memory().mapped == 0);
    CHECK(runtime.memory().weights == model.memory().weights);
    CHECK(Model::plan(runtime, packed.path(), {}, {.map = false}).total == model.memory().total);
    Model source = Model::open(runtime, DSV31_TINY_MODEL);
    auto ids = made_tokens(20, 1, 320);
    CHECK(same_bits(all_logits(model, ids, {}), all_logits(source, ids, {})));
  }
  CHECK(runtime.memory().weights == 0);
}

TEST_CASE("a packed file from the host's own reader, with a map, without one, and misaligned") {
  PackedFile packed(random_model("deepseek_v3_fp8"));
  const std::string bytes = packed.bytes();
  Model source = Model::open(runtime_with(1), random_model("deepseek_v3_fp8"));
  auto ids = made_tokens(20, 1, 320);
  const auto want = all_logits(source, ids, {});
  std::uint64_t last = 0;
  const Progress watch = [&](Stage, std::uint64_t done, std::uint64_t total) {
    CHECK(done <= total);
    last = done;
    return true;
  };
  const std::vector<std::shared_ptr<const Reader>> readers{reader_of(bytes), std::make_shared<MisplacedReader>(bytes),
                                                           open_file(packed.path())};
  for (const auto& reader : readers) {
    Model model = Model::open(runtime_with(2), reader, {.progress = watch});
    CHECK(same_bits(all_logits(model, ids, {}), want));
    CHECK((model.memory().mapped > 0) == (reader == readers[2]));
    Model::verify_file(reader);
    CHECK(last > 0);
  }
  const auto cancel = [](Stage s, std::uint64_t, std::uint64_t) { return s != Stage::read_weights; };
  expect_error(Code::cancelled, {}, [&] { Model::open(runtime_with(1), readers[0], {.progress = cancel}); });
}

TEST_CASE("a matrix that is damaged or not the model's is refused by name") {
  PackedFile packed(random_model("llama"));
  std::string bytes = packed.bytes();
  const auto whole = io::open_checkpoint(reader_of(bytes));
  for (const io::StoredMatrix& m : whole.packed->matrices) {
    std::string damaged = bytes;
    damaged[static_cast<std::size_t>(m.offset + m.bytes() / 2)] ^= 4;
    expect_error(Code::format, {"\"" + m.name + "\"", "checksum"}, [&] { Model::verify_file(reader_of(damaged)); });
    CHECK(Model::open(runtime_with(1), reader_of(damaged)).info().architecture == "llama");  // open does not read the payload
  }
  // Files whose checksums fit, from a table that a stranger wrote.
  const auto forged = [&](const std::function<void(std::vector<io::StoredMatrix>&)>& edit) {
    io::Checkpoint source = io::open_checkpoint(random_model("llama"));
    std::vector<io::StoredMatrix> matrices = whole.packed->matrices;
    edit(matrices);
    const std::string head = io::packed_head(source, matrices);
    std::string file = io::packed_header({.gguf = false, .payload_bytes = whole.packed->payload_bytes}, head) + head;
    file.resize(static_cast<std::size_t>(io::payload_offset(head.size())));
    return reader_of(file + bytes.substr(static_cast<std::size_t>(whole.packed->payload_offset)));
  };
  CHECK(Model::open(runtime_with(1), forged([](auto&) {})).info().architecture == "llama");
  const std::string name = whole.packed->matrices[1].name;
  const auto refuse = [&](Code code, std::initializer_list<std::string_view> parts,
                          const std::function<void(io::StoredMatrix&)>& edit) {
    expect_error(code, parts, [&] { Model::open(runtime_with(1), forged([&](auto& all) { edit(all[1]); })); });
  };
  refuse(Code::format, {name, "expected"}, [](io::StoredMatrix& m) { m.rows += 1; });
  refuse(Code::format, {name, "expected"}, [](io::StoredMatrix& m) { m.cols -= 1; });
  refuse(Code::format, {name, "expected"}, [](io::StoredMatrix& m) { m.type = DType::q8_0; });
  refuse(Code::format, {"other", "expected"}, [](io::StoredMatrix& m) { m.name = "other"; });
  refuse(Code::unsupported, {name, "layout"}, [](io::StoredMatrix& m) { m.layout = "n32k8"; });
  refuse(Code::unsupported, {"op"}, [](io::StoredMatrix& m) { m.layout = "source"; });
  expect_error(Code::format, {"n_matrices"}, [&] {
    io::Checkpoint source = io::open_checkpoint(random_model("llama"));
    const std::string head = io::packed_head(source, {});
    std::string file = io::packed_header({.gguf = false}, head) + head;
    file.resize(static_cast<std::size_t>(io::payload_offset(head.size())));
    Model::open(runtime_with(1), reader_of(file));
  });
}

TEST_CASE("what cannot be packed or verified is refused and leaves no file") {
  PackedFile packed(random_model("llama"));
  expect_error(Code::argument, {"packed file"}, [&] { Model::pack(runtime_with(1), packed.path(), packed.path() + "2"); });
  expect_error(Code::argument, {"model.verify_file"}, [] { Model::verify_file(DSV31_TINY_MODEL); });
  expect_error(Code::not_found, {}, [] { Model::pack(runtime_with(1), random_model("llama"), "/nowhere/at/all.dsv31"); });
  for (const Stage stage : {Stage::read_metadata, Stage::pack_weights}) {
    const auto stop = [=](Stage s, std::uint64_t, std::uint64_t) { return s != stage; };
    expect_error(Code::cancelled, {},
                 [&] { Model::pack(runtime_with(1), random_model("llama"), packed.path() + "3", {.progress = stop}); });
  }
  CHECK(packed.files() == 1);
}
