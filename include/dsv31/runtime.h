// A Runtime owns everything that other libraries make global: worker threads (or the host's executor), the log sink, the memory
// budget, the choice of instruction set. Two runtimes in one process know nothing of each other.
//
// Runtime is a handle: copies share the same runtime, which lives until the last copy and the last model opened with it are gone.
// All members may be called from any thread at any time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dsv31/error.h"
#include "dsv31/export.h"

namespace dsv31::inline v1 {

enum class LogLevel { error, warning, info, debug };

// Receives whole records, never fragments. Called from any thread of the runtime; an exception thrown by it is swallowed.
using LogSink = std::function<void(LogLevel, std::string_view record)>;

// Set from any thread, read by loading, prefill and decode at every work item (a few milliseconds apart at most).
class CancelToken {
 public:
  void cancel() noexcept { flag_.store(true, std::memory_order_relaxed); }
  void reset() noexcept { flag_.store(false, std::memory_order_relaxed); }
  bool cancelled() const noexcept { return flag_.load(std::memory_order_relaxed); }
  const std::atomic<bool>& flag() const noexcept { return flag_; }

 private:
  std::atomic<bool> flag_{false};
};

enum class Stage { read_metadata, read_weights, pack_weights, prefill };

// done and total are bytes while loading and tokens in prefill; done never falls within a stage. Called on the thread that made
// the call; returning false cancels it (Code::cancelled).
using Progress = std::function<bool(Stage, std::uint64_t done, std::uint64_t total)>;

// The host's own workers. parallel_for must call fn(arg, i) once for each i in [0, count), on any threads, in any order, and
// return when all have returned. It may be called from several threads at once when the host uses several sessions at once.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual int concurrency() const = 0;
  virtual void parallel_for(int count, void (*fn)(void* arg, int index), void* arg) = 0;
};

// Bytes from anywhere: a file, a pak, a decrypting stream. read_at must deliver exactly n bytes or throw; it is called from
// several threads at once. map may return a pointer that stays valid as long as the reader, or null.
class Reader {
 public:
  virtual ~Reader() = default;
  virtual std::uint64_t size() const = 0;
  virtual void read_at(std::uint64_t offset, void* dst, std::size_t n) const = 0;
  virtual const void* map(std::uint64_t offset, std::size_t n) const {
    (void)offset, (void)n;
    return nullptr;
  }
};

// A folder of the host: open returns null when there is no file of that name. Names never contain a path separator.
class Folder {
 public:
  virtual ~Folder() = default;
  virtual std::shared_ptr<const Reader> open(std::string_view name) const = 0;
};

// A file or a folder of the file system. Paths are UTF-8. Throws not_found or io.
DSV31_API std::shared_ptr<const Reader> open_file(const std::string& path);
DSV31_API std::shared_ptr<const Folder> open_folder(const std::string& path);
// Bytes that stay valid as long as the reader is used.
DSV31_API std::shared_ptr<const Reader> memory_reader(const void* data, std::size_t size);

// Memory hooks. allocate returns null on failure; alignment is a power of two. Both may be called from any thread.
struct Allocator {
  void* (*allocate)(void* user, std::size_t bytes, std::size_t alignment) = nullptr;
  void (*release)(void* user, void* ptr, std::size_t bytes) = nullptr;
  void* user = nullptr;
};

class Backend;  // dsv31/backend.h

struct RuntimeOptions {
  int threads = 0;               // workers, the caller included; 0: usable processors, limited by affinity and cgroup quota
  Executor* executor = nullptr;  // use the host's workers instead; must outlive the runtime
  LogSink log{};                 // none: nothing is logged; the library never writes to stdout or stderr
  LogLevel log_level = LogLevel::warning;
  std::uint64_t memory_budget = 0;  // bytes of weights, caches and scratch; 0: no limit
  Allocator allocator{};            // for weights, caches and scratch
  std::string isa{};                // "generic", "avx2", "avx512", "amx"; empty: the best this processor has; else unsupported
  std::string backend{};  // "reference", "cpu", "quantized" or a name of `backends`: put it first for every op it supports;
                          // empty: by affinity
  bool strict = false;    // with `backend`: refuse (unsupported) instead of falling back
  // The host's own backends (dsv31/backend.h: no stable ABI, build them with the library's headers). Each op goes to the backend
  // that likes it best; these come before the built-in ones where two like it the same. Names must be their own (argument). What
  // one throws while it runs comes out of the call that computed, as it was thrown; the session stays as it was before.
  std::vector<std::shared_ptr<const Backend>> backends{};
  bool pin_threads = false;    // one worker a physical processor
  int spin_microseconds = 50;  // how long a worker spins for the next phase before it sleeps
};

struct MemoryUse {
  std::uint64_t weights = 0, cache = 0, scratch = 0, peak = 0, budget = 0;  // bytes
};

class DSV31_API Runtime {
 public:
  // Throws argument for a value out of range, unsupported for an isa or backend that this build or processor lacks.
  explicit Runtime(RuntimeOptions options = {});

  int threads() const noexcept;
  std::string isa() const;  // the instruction set in use
  MemoryUse memory() const noexcept;

  struct Impl;
  const std::shared_ptr<Impl>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace dsv31::inline v1
