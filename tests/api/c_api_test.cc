#include "dsv31/c_api.h"

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/api/fixtures.h"
#include "tests/catch.h"

namespace {

dsv31_error fresh() {
  dsv31_error e{};
  e.struct_size = sizeof e;
  return e;
}

struct Loaded {
  dsv31_runtime* runtime = nullptr;
  dsv31_model* model = nullptr;
  Loaded() {
    dsv31_runtime_options o;
    o.struct_size = sizeof o;
    dsv31_runtime_options_init(&o);
    o.threads = 1;
    REQUIRE(dsv31_runtime_new(&o, &runtime, nullptr) == DSV31_OK);
    REQUIRE(dsv31_model_open(runtime, DSV31_TINY_MODEL, nullptr, &model, nullptr) == DSV31_OK);
  }
  ~Loaded() {
    dsv31_model_free(model);
    dsv31_runtime_free(runtime);
  }
};

std::vector<int32_t> question(const dsv31_model* m) {
  std::vector<int32_t> ids(256);
  size_t n = 0;
  REQUIRE(dsv31_chat_prompt(m, R"([{"role": "user", "content": "What is the capital of France?"}])", 0, ids.data(), ids.size(),
                            &n, nullptr) == DSV31_OK);
  ids.resize(n);
  return ids;
}

}  // namespace

TEST_CASE("C: load, render, generate with a callback, read logits, fork, rewind") {
  Loaded l;
  CHECK(dsv31_c_api_version() == DSV31_C_API_VERSION);
  CHECK(std::string(dsv31_version()) == "0.1.0");
  CHECK(dsv31_model_vocab_size(l.model) == 1024);
  CHECK(dsv31_model_context_length(l.model) == 4096);
  dsv31_session* s = nullptr;
  REQUIRE(dsv31_session_new(l.model, nullptr, &s, nullptr) == DSV31_OK);
  auto ids = question(l.model);
  REQUIRE(dsv31_session_append(s, ids.data(), ids.size(), nullptr, nullptr) == DSV31_OK);
  dsv31_session* f = nullptr;
  REQUIRE(dsv31_session_fork(s, &f, nullptr) == DSV31_OK);
  dsv31_generate_options g;
  g.struct_size = sizeof g;
  dsv31_generate_options_init(&g);
  g.temperature = 0;
  g.max_tokens = 50;
  std::string text;
  g.user = &text;
  g.on_token = [](void* user, int32_t, const char* t, size_t n) -> int32_t {
    static_cast<std::string*>(user)->append(t, n);
    return 1;
  };
  int32_t finish = -1;
  int64_t count = 0;
  REQUIRE(dsv31_session_generate(s, &g, &finish, &count, nullptr) == DSV31_OK);
  CHECK(text.find("Paris") != std::string::npos);
  CHECK(finish == DSV31_FINISH_END_OF_GENERATION);
  CHECK(dsv31_session_size(s) == static_cast<int64_t>(ids.size()) + count);
  REQUIRE(dsv31_session_rewind(s, static_cast<int64_t>(ids.size()), nullptr) == DSV31_OK);
  const float *a = nullptr, *b = nullptr;
  REQUIRE(dsv31_session_logits(s, &a, nullptr) == DSV31_OK);
  REQUIRE(dsv31_session_logits(f, &b, nullptr) == DSV31_OK);
  CHECK(std::memcmp(a, b, 1024 * sizeof(float)) == 0);
  dsv31_session_free(f);
  dsv31_session_free(s);
}

TEST_CASE("C: an attention window is that of the tokens after it") {
  Loaded l;
  dsv31_session* s = nullptr;
  REQUIRE(dsv31_session_new(l.model, nullptr, &s, nullptr) == DSV31_OK);
  dsv31_error e = fresh();
  CHECK(dsv31_session_set_attention_window(s, -1, 0, &e) == DSV31_ARGUMENT);
  CHECK(dsv31_session_set_attention_window(s, 0, 4, &e) == DSV31_ARGUMENT);
  CHECK(std::string(e.message).find("attention_window.sinks") != std::string::npos);
  CHECK(dsv31_session_set_attention_window(nullptr, 8, 0, &e) == DSV31_ARGUMENT);
  const auto ids = question(l.model);
  const auto logits = [&](int64_t window, int64_t sinks) {
    REQUIRE(dsv31_session_rewind(s, 0, nullptr) == DSV31_OK);
    REQUIRE(dsv31_session_set_attention_window(s, window, sinks, nullptr) == DSV31_OK);
    REQUIRE(dsv31_session_append(s, ids.data(), ids.size(), nullptr, nullptr) == DSV31_OK);
    const float* row = nullptr;
    REQUIRE(dsv31_session_logits(s, &row, nullptr) == DSV31_OK);
    return std::vector<float>(row, row + 1024);
  };
  const auto all = logits(0, 0);
  CHECK(std::memcmp(logits(1000, 4).data(), all.data(), 1024 * sizeof(float)) == 0);
  CHECK(std::memcmp(logits(2, 1).data(), all.data(), 1024 * sizeof(float)) != 0);
  dsv31_session_free(s);
}

TEST_CASE("C: tokens and text round trip; a buffer too small is a limit and says what is needed") {
  Loaded l;
  const std::string text = "hello world 42";
  std::vector<int32_t> ids(64);
  size_t n = 0;
  REQUIRE(dsv31_tokenize(l.model, text.data(), text.size(), 0, 0, ids.data(), ids.size(), &n, nullptr) == DSV31_OK);
  char out[64];
  size_t length = 0;
  REQUIRE(dsv31_detokenize(l.model, ids.data(), n, out, sizeof out, &length, nullptr) == DSV31_OK);
  CHECK(std::string(out, length) == text);
  dsv31_error e = fresh();
  size_t needed = 0;
  CHECK(dsv31_tokenize(l.model, text.data(), text.size(), 0, 0, ids.data(), 1, &needed, &e) == DSV31_LIMIT);
  CHECK(needed == n);
  CHECK(e.code == DSV31_LIMIT);
  CHECK(dsv31_tokenize(l.model, text.data(), text.size(), 0, 0, nullptr, 0, &needed, nullptr) == DSV31_LIMIT);
  CHECK(needed == n);
}

TEST_CASE("C: every error is a code and a message, never an exception") {
  Loaded l;
  dsv31_error e = fresh();
  dsv31_model* m = nullptr;
  CHECK(dsv31_model_open(l.runtime, "/nowhere/at/all.gguf", nullptr, &m, &e) == DSV31_NOT_FOUND);
  CHECK(e.code == DSV31_NOT_FOUND);
  CHECK(std::strlen(e.message) > 10);
  CHECK(m == nullptr);
  CHECK(dsv31_model_open(nullptr, "x", nullptr, &m, &e) == DSV31_ARGUMENT);
  CHECK(dsv31_session_append(nullptr, nullptr, 0, nullptr, &e) == DSV31_ARGUMENT);
  CHECK(dsv31_tokenize(l.model, "x", 1, 7, 0, nullptr, 0, nullptr, &e) == DSV31_ARGUMENT);
  dsv31_runtime_options o;
  o.struct_size = sizeof o;
  dsv31_runtime_options_init(&o);
  o.isa = "z80";
  dsv31_runtime* r = nullptr;
  CHECK(dsv31_runtime_new(&o, &r, &e) == DSV31_UNSUPPORTED);
  dsv31_session* s = nullptr;
  REQUIRE(dsv31_session_new(l.model, nullptr, &s, &e) == DSV31_OK);
  CHECK(e.code == DSV31_OK);
  int32_t bad = 5000;
  CHECK(dsv31_session_append(s, &bad, 1, nullptr, &e) == DSV31_ARGUMENT);
  dsv31_cancel* c = nullptr;
  REQUIRE(dsv31_cancel_new(&c, nullptr) == DSV31_OK);
  dsv31_cancel_set(c);
  int32_t id = 5;
  CHECK(dsv31_session_append(s, &id, 1, c, &e) == DSV31_CANCELLED);
  dsv31_cancel_reset(c);
  CHECK(dsv31_session_append(s, &id, 1, c, &e) == DSV31_OK);
  dsv31_cancel_free(c);
  dsv31_session_free(s);
  dsv31_session_free(nullptr);
  dsv31_model_free(nullptr);
  dsv31_runtime_free(nullptr);
}

TEST_CASE("C: drafts change no token, and their counts come back") {
  Loaded l;
  dsv31_model_options with_mtp;
  with_mtp.struct_size = sizeof with_mtp;
  dsv31_model_options_init(&with_mtp);
  CHECK(with_mtp.mtp == 0);
  with_mtp.mtp = 1;
  dsv31_model* model = nullptr;
  REQUIRE(dsv31_model_open(l.runtime, dsv31::test::random_model("deepseek_v3_mtp").c_str(), &with_mtp, &model, nullptr) ==
          DSV31_OK);
  std::vector<std::vector<int32_t>> outputs;
  for (int32_t draft : {DSV31_DRAFT_NONE, DSV31_DRAFT_MTP, DSV31_DRAFT_NGRAM}) {
    dsv31_session* s = nullptr;
    REQUIRE(dsv31_session_new(model, nullptr, &s, nullptr) == DSV31_OK);
    const std::vector<int32_t> ids(30, 7);
    REQUIRE(dsv31_session_append(s, ids.data(), ids.size(), nullptr, nullptr) == DSV31_OK);
    dsv31_generate_options g;
    g.struct_size = sizeof g;
    dsv31_generate_options_init(&g);
    CHECK(g.draft_max == 3);
    CHECK(g.draft_cost == -1);
    dsv31_draft_stats stats{};
    stats.struct_size = sizeof stats;
    g.max_tokens = 20;
    g.temperature = 0;
    g.draft = draft;
    g.draft_max = 2;
    g.draft_cost = 0;
    g.stats = &stats;
    outputs.emplace_back();
    g.user = &outputs.back();
    g.on_token = [](void* user, int32_t token, const char*, size_t) -> int32_t {
      if (token >= 0) static_cast<std::vector<int32_t>*>(user)->push_back(token);
      return 1;
    };
    REQUIRE(dsv31_session_generate(s, &g, nullptr, nullptr, nullptr) == DSV31_OK);
    CHECK(stats.struct_size == sizeof stats);
    CHECK(stats.steps + stats.accepted[0] + stats.accepted[1] >= static_cast<int64_t>(outputs.back().size()) - 1);
    if (draft == DSV31_DRAFT_MTP) CHECK(stats.proposed[1] > 0);
    if (draft == DSV31_DRAFT_NONE) CHECK(stats.proposed[0] == 0);
    CHECK(stats.proposed[2] == 0);
    dsv31_session_free(s);
  }
  CHECK(outputs[0] == outputs[1]);
  CHECK(outputs[0] == outputs[2]);
  dsv31_session* s = nullptr;
  REQUIRE(dsv31_session_new(l.model, nullptr, &s, nullptr) == DSV31_OK);
  const int32_t id = 5;
  REQUIRE(dsv31_session_append(s, &id, 1, nullptr, nullptr) == DSV31_OK);
  dsv31_generate_options g;
  g.struct_size = sizeof g;
  dsv31_generate_options_init(&g);
  dsv31_error e = fresh();
  g.draft = DSV31_DRAFT_MTP;
  CHECK(dsv31_session_generate(s, &g, nullptr, nullptr, &e) == DSV31_UNSUPPORTED);
  g.draft = 9;
  CHECK(dsv31_session_generate(s, &g, nullptr, nullptr, &e) == DSV31_ARGUMENT);
  dsv31_session_free(s);
  dsv31_model_free(model);
}

TEST_CASE("C: a program built against version 1 draws without drafts") {
  Loaded l;
  dsv31_session* s = nullptr;
  REQUIRE(dsv31_session_new(l.model, nullptr, &s, nullptr) == DSV31_OK);
  auto ids = question(l.model);
  REQUIRE(dsv31_session_append(s, ids.data(), ids.size(), nullptr, nullptr) == DSV31_OK);
  dsv31_generate_options g;
  g.struct_size = offsetof(dsv31_generate_options, draft);
  std::fill(reinterpret_cast<char*>(&g) + g.struct_size, reinterpret_cast<char*>(&g + 1), char{0x5a});  // behind it: not read
  dsv31_generate_options_init(&g);
  g.max_tokens = 4;
  CHECK(dsv31_session_generate(s, &g, nullptr, nullptr, nullptr) == DSV31_OK);
  dsv31_session_free(s);
}

TEST_CASE("C: a struct shorter than today's keeps the defaults of what it lacks") {
  Loaded l;
  dsv31_session_options o;
  o.struct_size = sizeof o.struct_size + sizeof o.context;  // an older program that knows only the context
  std::memset(&o.chunk, 0x5a, sizeof o.chunk);              // what lies behind is not read
  o.context = 64;
  dsv31_session* s = nullptr;
  REQUIRE(dsv31_session_new(l.model, &o, &s, nullptr) == DSV31_OK);
  auto ids = question(l.model);
  REQUIRE(dsv31_session_append(s, ids.data(), ids.size(), nullptr, nullptr) == DSV31_OK);
  std::vector<int32_t> many(100, 5);
  CHECK(dsv31_session_append(s, many.data(), many.size(), nullptr, nullptr) == DSV31_LIMIT);
  dsv31_session_free(s);
  dsv31_error e{};
  e.struct_size = offsetof(dsv31_error, message) + 8;  // room for 7 characters
  dsv31_model* m = nullptr;
  CHECK(dsv31_model_open(l.runtime, "/nowhere", nullptr, &m, &e) == DSV31_NOT_FOUND);
  CHECK(std::strlen(e.message) == 7);
}

TEST_CASE("C: a host's reader serves, its failure is io, and it is closed exactly once") {
  Loaded l;
  std::ifstream file(DSV31_TINY_MODEL, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  struct Host {
    std::string data;
    int closed = 0, fail_after = -1;
  } host{bytes.str()};
  dsv31_reader r{};
  r.struct_size = sizeof r;
  r.user = &host;
  r.size = host.data.size();
  r.read_at = [](void* user, uint64_t offset, void* dst, size_t n) -> int32_t {
    auto* h = static_cast<Host*>(user);
    if (h->fail_after >= 0 && offset > static_cast<uint64_t>(h->fail_after)) return 5;
    std::memcpy(dst, h->data.data() + offset, n);
    return 0;
  };
  r.close = [](void* user) { ++static_cast<Host*>(user)->closed; };
  dsv31_model* m = nullptr;
  REQUIRE(dsv31_model_open_reader(l.runtime, &r, nullptr, &m, nullptr) == DSV31_OK);
  CHECK(host.closed == 1);
  dsv31_model_free(m);
  host.fail_after = 1'000'000;
  dsv31_error e = fresh();
  CHECK(dsv31_model_open_reader(l.runtime, &r, nullptr, &m, &e) == DSV31_IO);
  CHECK(host.closed == 2);
}
