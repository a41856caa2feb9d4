// How many processors this process may use, and on which one a thread runs.
#pragma once

#include <vector>

namespace dsv31::inline v1::sched {

// Ids of the processors in this process's affinity mask, ascending; at least one.
std::vector<int> allowed_processors();
// Processors worth a thread each: the mask, capped by the cgroup's CPU quota rounded down. At least 1.
int usable_processors();
// Binds the calling thread; false where the system refuses.
bool pin_this_thread(int processor) noexcept;
// Names the calling thread for debuggers.
void name_this_thread(const char* name) noexcept;

}  // namespace dsv31::inline v1::sched
