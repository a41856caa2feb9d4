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
      team({options.threads, options.executor, options.pin_threads, options.spin_microseconds}) {
  BuiltinBackends builtin = builtin_backends(options.isa);
  isa = std::move(builtin.isa);
  backends = options.backends;
  for (auto& b : builtin.list) backends.push_back(std::move(b));
  std::string names;
  bool known = options.backend.empty();
  for (std::size_t i = 0; i < backends.size(); ++i) {
    if (backends[i] == nullptr) throw Error(Code::argument, "runtime.backends", "got null, expected a backend");
    const std::string_view name = backends[i]->name();
    for (std::size_t j = 0; j < i; ++j)
      if (name == backends[j]->name())
        throw Error(Code::argument, "runtime.backends", fmt::format("got '{:.40}' twice, expected names of their own", name));
    known = known || name == options.backend;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  }
  if (!known)
    throw Error(Code::unsupported, "runtime.backend", fmt::format("got '{:.40}', expected one of {}", options.backend, names));
  if (logs(LogLevel::info)) log(LogLevel::info, fmt::format("runtime: {} workers, {}", team.size(), isa));
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
std::string Runtime::isa() const { return impl_->isa; }
MemoryUse Runtime::memory() const noexcept { return impl_->accountant->use(); }

}  // namespace dsv31::inline v1
