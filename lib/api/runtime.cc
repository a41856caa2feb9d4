#include "dsv31/runtime.h"

#include <fmt/format.h>

#include "lib/api/runtime_impl.h"

namespace dsv31::inline v1 {
namespace {

RuntimeOptions checked(RuntimeOptions o) {
  if (o.threads < 0 || o.threads > 4096)
    throw Error(Code::argument, "runtime.threads", fmt::format("got {}, expected 0 to 4096", o.threads));
  if (o.spin_microseconds < 0 || o.spin_microseconds > 1'000'000)
    throw Error(Code::argument, "runtime.spin_microseconds", fmt::format("got {}, expected 0 to 1000000", o.spin_microseconds));
  if ((o.allocator.allocate == nullptr) != (o.allocator.release == nullptr))
    throw Error(Code::argument, "runtime.allocator", "got one of allocate and release, expected both or neither");
  if (o.strict && o.backend.empty())
    throw Error(Code::argument, "runtime.strict", "got strict without a backend, expected the name of the backend to hold to");
  return o;
}

}  // namespace

Runtime::Impl::Impl(RuntimeOptions o)
    : options(checked(std::move(o))),
      accountant(std::make_shared<sched::Accountant>(options.allocator, options.memory_budget)),
      backends(builtin_backends(options.isa)),
      team({options.threads, options.executor, options.pin_threads, options.spin_microseconds}) {
  if (!options.backend.empty()) {
    std::string names;
    bool known = false;
    for (auto& b : backends.list) {
      known = known || b->name() == options.backend;
      names += fmt::format("{}{}", names.empty() ? "" : ", ", b->name());
    }
    if (!known)
      throw Error(Code::unsupported, "runtime.backend", fmt::format("got '{:.40}', expected one of {}", options.backend, names));
  }
  if (logs(LogLevel::info)) log(LogLevel::info, fmt::format("runtime: {} workers, {}", team.size(), backends.isa));
}

void Runtime::Impl::log(LogLevel level, std::string_view record) const noexcept {
  if (!logs(level)) return;
  try {
    options.log(level, record);
  } catch (...) {  // a sink's failure is not the caller's
  }
}

Runtime::Runtime(RuntimeOptions options) : impl_(std::make_shared<Impl>(std::move(options))) {}
int Runtime::threads() const noexcept { return impl_->team.size(); }
std::string Runtime::isa() const { return impl_->backends.isa; }
MemoryUse Runtime::memory() const noexcept { return impl_->accountant->use(); }

}  // namespace dsv31::inline v1
