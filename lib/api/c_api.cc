// The C API: each call is a guarded call of the C++ API. No exception passes; a struct that is shorter than today's is read as
// far as it goes and keeps the defaults for the rest.
#include "dsv31/c_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "dsv31/dsv31.h"

using namespace dsv31;

struct dsv31_runtime {
  Runtime value;
};
struct dsv31_model {
  Model value;
};
struct dsv31_session {
  Session value;
};
struct dsv31_cancel {
  CancelToken value;
};

namespace {

void fill(dsv31_error* error, int32_t code, const char* message) noexcept {
  if (error == nullptr || error->struct_size < offsetof(dsv31_error, message)) return;
  error->code = code;
  std::size_t room = std::min(error->struct_size - offsetof(dsv31_error, message), sizeof error->message);
  if (room == 0) return;
  std::size_t n = std::min(std::strlen(message), room - 1);
  std::memcpy(error->message, message, n);
  error->message[n] = 0;
}

// Runs f; turns what it throws into a code.
template <class F>
int32_t guarded(dsv31_error* error, F f) noexcept {
  try {
    f();
    fill(error, 0, "");
    return DSV31_OK;
  } catch (const Error& e) {
    fill(error, static_cast<int32_t>(e.code()), e.what());
    return static_cast<int32_t>(e.code());
  } catch (const std::bad_alloc&) {
    fill(error, DSV31_NO_MEMORY, "[c_api] got no memory for a small allocation, expected some");
    return DSV31_NO_MEMORY;
  } catch (...) {
    fill(error, DSV31_BACKEND, "[c_api] got an exception of a foreign type, expected none");
    return DSV31_BACKEND;
  }
}

void require(bool holds, const char* where, const char* what) {
  if (!holds) throw Error(Code::argument, where, what);
}

// Today's struct, filled as far as the caller's reaches.
template <class T>
T take(const T* options, void (*init)(T*), const char* where) {
  T out;
  std::memset(&out, 0, sizeof out);
  out.struct_size = sizeof out;
  init(&out);
  if (options == nullptr) return out;
  require(options->struct_size >= sizeof(std::size_t), where,
          "got a struct_size that was not set, expected sizeof of the struct");
  std::memcpy(&out, options, std::min(options->struct_size, sizeof out));
  out.struct_size = sizeof out;
  return out;
}

// Defaults for as much of the struct as the caller has.
template <class T>
void give(T* options, const T& defaults) noexcept {
  if (options == nullptr || options->struct_size < sizeof(std::size_t)) return;
  std::size_t size = options->struct_size;
  std::memcpy(options, &defaults, std::min(size, sizeof defaults));
  options->struct_size = size;
}

template <class T, class U>
void put(const T* data, std::size_t n, U* out, std::size_t capacity, std::size_t* count, const char* where) {
  require(count != nullptr, where, "got no place for the count, expected one");
  require(out != nullptr || capacity == 0, where, "got no buffer, expected one of the given capacity");
  *count = n;
  std::copy(data, data + std::min(n, capacity), out);
  if (n > capacity) throw Error(Code::limit, where, fmt::format("got a buffer of {}, expected {}", capacity, n));
}

const CancelToken* cancel_of(const dsv31_cancel* c) { return c ? &c->value : nullptr; }

class HostReader final : public Reader {
 public:
  explicit HostReader(const dsv31_reader& r) : r_(r) {}
  ~HostReader() override {
    if (r_.close) r_.close(r_.user);
  }
  std::uint64_t size() const override { return r_.size; }
  void read_at(std::uint64_t offset, void* dst, std::size_t n) const override {
    int32_t rc = r_.read_at(r_.user, offset, dst, n);
    if (rc != 0)
      throw Error(Code::io, "reader.read_at", fmt::format("got {} from the host's reader at offset {}, expected 0", rc, offset));
  }

 private:
  dsv31_reader r_;
};

ModelOptions model_options(const dsv31_model_options& o) {
  ModelOptions out;
  out.cancel = cancel_of(o.cancel);
  out.mtp = o.mtp != 0;
  if (o.progress)
    out.progress = [o](Stage stage, std::uint64_t done, std::uint64_t total) {
      return o.progress(o.progress_user, static_cast<int32_t>(stage), done, total) != 0;
    };
  return out;
}

dsv31_draft_stats draft_stats(const GenerateResult& r) {
  dsv31_draft_stats out{};
  out.steps = r.steps;
  out.off = r.drafts.off;
  out.cost = r.drafts.cost;
  for (std::size_t i = 0; i < std::min(r.drafts.positions.size(), std::size(out.proposed)); ++i) {
    out.proposed[i] = r.drafts.positions[i].proposed;
    out.accepted[i] = r.drafts.positions[i].accepted;
  }
  return out;
}

}  // namespace

extern "C" {

uint32_t dsv31_c_api_version(void) { return DSV31_C_API_VERSION; }

#define DSV31_TEXT_(x) #x
#define DSV31_TEXT(x) DSV31_TEXT_(x)
const char* dsv31_version(void) {
  return DSV31_TEXT(DSV31_VERSION_MAJOR) "." DSV31_TEXT(DSV31_VERSION_MINOR) "." DSV31_TEXT(DSV31_VERSION_PATCH);
}

int32_t dsv31_cancel_new(dsv31_cancel** out, dsv31_error* error) {
  return guarded(error, [&] {
    require(out != nullptr, "cancel_new", "got no place for the result, expected one");
    *out = new dsv31_cancel();
  });
}
void dsv31_cancel_set(dsv31_cancel* token) {
  if (token) token->value.cancel();
}
void dsv31_cancel_reset(dsv31_cancel* token) {
  if (token) token->value.reset();
}
void dsv31_cancel_free(dsv31_cancel* token) { delete token; }

void dsv31_runtime_options_init(dsv31_runtime_options* options) {
  dsv31_runtime_options d{};
  d.log_level = static_cast<int32_t>(LogLevel::warning);
  give(options, d);
}

int32_t dsv31_runtime_new(const dsv31_runtime_options* options, dsv31_runtime** out, dsv31_error* error) {
  return guarded(error, [&] {
    require(out != nullptr, "runtime_new", "got no place for the result, expected one");
    dsv31_runtime_options o = take(options, dsv31_runtime_options_init, "runtime_new");
    RuntimeOptions r;
    r.threads = o.threads;
    r.memory_budget = o.memory_budget;
    if (o.isa) r.isa = o.isa;
    if (o.backend) r.backend = o.backend;
    require(o.log_level >= 0 && o.log_level <= 3, "runtime_new.log_level", "got a level out of range, expected 0 to 3");
    r.log_level = static_cast<LogLevel>(o.log_level);
    if (o.log)
      r.log = [log = o.log, user = o.log_user](LogLevel level, std::string_view record) {
        log(user, static_cast<int32_t>(level), record.data(), record.size());
      };
    *out = new dsv31_runtime{Runtime(std::move(r))};
  });
}
void dsv31_runtime_free(dsv31_runtime* runtime) { delete runtime; }

void dsv31_model_options_init(dsv31_model_options* options) { give(options, dsv31_model_options{}); }

int32_t dsv31_model_open(dsv31_runtime* runtime, const char* path, const dsv31_model_options* options, dsv31_model** out,
                         dsv31_error* error) {
  return guarded(error, [&] {
    require(runtime && path && out, "model_open", "got a null pointer, expected runtime, path and a place for the result");
    ModelOptions o = model_options(take(options, dsv31_model_options_init, "model_open"));
    *out = new dsv31_model{Model::open(runtime->value, std::string(path), o)};
  });
}

int32_t dsv31_model_open_reader(dsv31_runtime* runtime, const dsv31_reader* reader, const dsv31_model_options* options,
                                dsv31_model** out, dsv31_error* error) {
  return guarded(error, [&] {
    require(runtime && reader && out, "model_open_reader",
            "got a null pointer, expected runtime, reader and a place for the result");
    require(reader->struct_size >= sizeof *reader && reader->read_at, "model_open_reader",
            "got a reader without read_at, expected a whole one");
    auto shared = std::make_shared<const HostReader>(*reader);
    ModelOptions o = model_options(take(options, dsv31_model_options_init, "model_open_reader"));
    *out = new dsv31_model{Model::open(runtime->value, std::shared_ptr<const Reader>(shared), o)};
  });
}
void dsv31_model_free(dsv31_model* model) { delete model; }
int64_t dsv31_model_vocab_size(const dsv31_model* model) { return model ? model->value.info().vocab_size : 0; }
int64_t dsv31_model_context_length(const dsv31_model* model) { return model ? model->value.info().context_length : 0; }

int32_t dsv31_tokenize(const dsv31_model* model, const char* text, size_t length, int32_t special, int32_t bos, int32_t* ids,
                       size_t capacity, size_t* count, dsv31_error* error) {
  return guarded(error, [&] {
    require(model && (text || length == 0), "tokenize", "got a null pointer, expected a model and a text");
    require(special >= 0 && special <= 2, "tokenize.special", "got a value out of range, expected 0, 1 or 2");
    auto v = model->value.tokenizer().encode(std::string_view(text ? text : "", length),
                                             {.special = static_cast<Special>(special), .bos = bos != 0});
    put(v.data(), v.size(), ids, capacity, count, "tokenize");
  });
}

int32_t dsv31_detokenize(const dsv31_model* model, const int32_t* ids, size_t count, char* text, size_t capacity, size_t* length,
                         dsv31_error* error) {
  return guarded(error, [&] {
    require(model && (ids || count == 0), "detokenize", "got a null pointer, expected a model and ids");
    std::string s = model->value.tokenizer().decode({ids, count});
    put(s.data(), s.size(), text, capacity, length, "detokenize");
  });
}

int32_t dsv31_chat_prompt(const dsv31_model* model, const char* messages_json, int32_t thinking, int32_t* ids, size_t capacity,
                          size_t* count, dsv31_error* error) {
  return guarded(error, [&] {
    require(model && messages_json, "chat_prompt", "got a null pointer, expected a model and messages");
    ChatOptions o;
    if (thinking >= 0) o.thinking = thinking != 0;
    auto v = model->value.tokenizer().encode(model->value.chat_template().render_json(messages_json, o));
    put(v.data(), v.size(), ids, capacity, count, "chat_prompt");
  });
}

void dsv31_session_options_init(dsv31_session_options* options) {
  dsv31_session_options d{};
  d.chunk = ComputeOptions{}.chunk;
  give(options, d);
}

int32_t dsv31_session_new(const dsv31_model* model, const dsv31_session_options* options, dsv31_session** out,
                          dsv31_error* error) {
  return guarded(error, [&] {
    require(model && out, "session_new", "got a null pointer, expected a model and a place for the result");
    dsv31_session_options o = take(options, dsv31_session_options_init, "session_new");
    *out = new dsv31_session{
        Session(model->value, {.exact = o.exact != 0, .relaxed = o.relaxed != 0, .chunk = o.chunk, .context = o.context})};
  });
}
int32_t dsv31_session_fork(const dsv31_session* session, dsv31_session** out, dsv31_error* error) {
  return guarded(error, [&] {
    require(session && out, "session_fork", "got a null pointer, expected a session and a place for the result");
    *out = new dsv31_session{session->value.fork()};
  });
}
void dsv31_session_free(dsv31_session* session) { delete session; }

int32_t dsv31_session_append(dsv31_session* session, const int32_t* ids, size_t count, const dsv31_cancel* cancel,
                             dsv31_error* error) {
  return guarded(error, [&] {
    require(session && (ids || count == 0), "session_append", "got a null pointer, expected a session and ids");
    session->value.append(std::span<const Token>(ids, count), AppendOptions{{}, cancel_of(cancel)});
  });
}
int32_t dsv31_session_rewind(dsv31_session* session, int64_t size, dsv31_error* error) {
  return guarded(error, [&] {
    require(session, "session_rewind", "got a null pointer, expected a session");
    session->value.rewind(size);
  });
}
int32_t dsv31_session_set_attention_window(dsv31_session* session, int64_t window, int64_t sinks, dsv31_error* error) {
  return guarded(error, [&] {
    require(session, "session_set_attention_window", "got a null pointer, expected a session");
    session->value.set_attention_window({.window = window, .sinks = sinks});
  });
}
int64_t dsv31_session_size(const dsv31_session* session) { return session ? session->value.size() : 0; }
int32_t dsv31_session_logits(dsv31_session* session, const float** logits, dsv31_error* error) {
  return guarded(error, [&] {
    require(session && logits, "session_logits", "got a null pointer, expected a session and a place for the result");
    *logits = session->value.logits().data();
  });
}

void dsv31_generate_options_init(dsv31_generate_options* options) {
  SamplerOptions s;
  dsv31_generate_options d{};
  d.max_tokens = -1;
  d.seed = s.seed;
  d.temperature = s.temperature;
  d.top_p = s.top_p;
  d.min_p = s.min_p;
  d.repeat_penalty = s.repeat_penalty;
  d.top_k = s.top_k;
  const GenerateOptions g;
  d.draft_max = g.draft_max;
  d.draft_cost = g.draft_cost;
  give(options, d);
}

int32_t dsv31_session_generate(dsv31_session* session, const dsv31_generate_options* options, int32_t* finish, int64_t* generated,
                               dsv31_error* error) {
  return guarded(error, [&] {
    require(session, "session_generate", "got a null pointer, expected a session");
    dsv31_generate_options o = take(options, dsv31_generate_options_init, "session_generate");
    GenerateOptions g;
    g.max_tokens = o.max_tokens;
    g.cancel = cancel_of(o.cancel);
    g.sampler.seed = o.seed;
    g.sampler.temperature = o.temperature;
    g.sampler.top_p = o.top_p;
    g.sampler.min_p = o.min_p;
    g.sampler.repeat_penalty = o.repeat_penalty;
    g.sampler.top_k = o.top_k;
    require(o.stop != nullptr || o.stop_count == 0, "session_generate.stop", "got no strings, expected stop_count of them");
    for (size_t i = 0; i < o.stop_count; ++i) {
      require(o.stop[i] != nullptr, "session_generate.stop", "got a null string, expected text");
      g.stop.emplace_back(o.stop[i]);
    }
    require(o.draft >= DSV31_DRAFT_NONE && o.draft <= DSV31_DRAFT_NGRAM, "session_generate.draft",
            "got a value out of range, expected a dsv31_draft");
    g.draft = static_cast<Draft>(o.draft);
    g.draft_max = o.draft_max;
    g.draft_cost = o.draft_cost;
    GenerateResult r = session->value.generate(g, [&](const TokenEvent& e) {
      return o.on_token == nullptr || o.on_token(o.user, e.token, e.text.data(), e.text.size()) != 0;
    });
    if (finish) *finish = static_cast<int32_t>(r.finish);
    if (generated) *generated = static_cast<int64_t>(r.tokens.size());
    if (o.stats) give(o.stats, draft_stats(r));
  });
}

}  // extern "C"
