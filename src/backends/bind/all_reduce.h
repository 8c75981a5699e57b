// SPDX-License-Identifier: Apache-2.0
// Shared by the bindings of all_reduce: its tensors, and the group of ranks that it names.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/collectives/communicator.h"
#include "backends/kernel.h"
#include "base/error.h"

namespace ridge::backends::bind {

struct AllReduce {
  std::vector<Exchanged> tensors;
  bool average = false;
  std::string group;
  int64_t ranks = 1;
  std::string what;  // for messages
};

// `make` is not called for a single rank, which exchanges nothing.
Kernel all_reduce(std::function<Launch(const AllReduce&)> make);

// The group among those that this process has joined. Throws a usage Error if it is not there or
// has another number of ranks.
template <typename Joined>
auto& group_of(const Joined& groups, const AllReduce& call) {
  const auto found = groups.find(call.group);
  const int64_t ranks = found == groups.end() ? 1 : found->second->size();
  if (ranks != call.ranks)
    throw usage_error("[ranks] expected {} processes in the group {}, got {}", call.ranks,
                      call.group, ranks);
  return *found->second;
}

}  // namespace ridge::backends::bind
