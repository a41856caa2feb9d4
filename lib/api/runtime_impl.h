// What a Runtime handle stands for.
#pragma once

#include <memory>
#include <string_view>

#include "dsv31/backend.h"
#include "dsv31/runtime.h"
#include "lib/sched/memory.h"
#include "lib/sched/placement.h"
#include "lib/sched/team.h"

namespace dsv31::inline v1 {

struct Runtime::Impl {
  explicit Impl(RuntimeOptions o);

  RuntimeOptions options;
  std::shared_ptr<sched::Accountant> accountant;
  std::string isa;              // the one in use
  sched::BackendList backends;  // the host's own, then the built-in ones
  sched::Team team;

  sched::Preference preference() const { return {options.backend, options.strict}; }
  bool logs(LogLevel level) const noexcept { return options.log && level <= options.log_level; }
  void log(LogLevel level, std::string_view record) const noexcept;
};

}  // namespace dsv31::inline v1
