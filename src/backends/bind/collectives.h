// SPDX-License-Identifier: Apache-2.0
// Shared by the bindings of collectives: their tensors, and the group of ranks that they name.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/collectives/communicator.h"
#include "backends/kernel.h"
#include "base/error.h"

namespace ridge::backends::bind {

struct Collective {
  std::string group;
  int64_t ranks = 1;
  bool average = false;
  std::string what;  // for messages
};
Collective collective_of(const BindCall& call);
struct AllReduce : Collective {
  std::vector<Exchanged> tensors;
};
// A tensor that a rank sends or receives.
struct Transfer : Collective {
  Exchanged tensor;
};
struct DividedCollective : Collective {
  std::vector<Divided> tensors;
};

// `make` is not called for a single rank, which exchanges nothing.
Kernel all_reduce(std::function<Launch(const AllReduce&)> make);

// A copy of equal rows.
struct RowCopy {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  int64_t rows = 0, row_bytes = 0;
  int64_t from_stride = 0, to_stride = 0;  // bytes from a row to the next
};

// How a backend exchanges parts that lie one after the other, and how it copies rows: parts along
// another axis than the first are laid out in a workspace.
struct DividedLaunchers {
  std::function<Launch(const DividedCollective&)> exchange;  // not called for a single rank
  std::function<Launch(const std::vector<RowCopy>&)> copy;
};
Kernel all_gather(DividedLaunchers launchers);
Kernel reduce_scatter(DividedLaunchers launchers);

// A single rank sends nothing, and receives zeros, which `clear` writes.
Kernel send(std::function<Launch(const Transfer&)> make);
Kernel receive(std::function<Launch(const Transfer&)> make,
               std::function<Launch(const Exchanged&)> clear);

// The group among those that this process has joined. Throws a usage Error if it is not there or
// has another number of ranks.
template <typename Joined>
auto& group_of(const Joined& groups, const Collective& call) {
  const auto found = groups.find(call.group);
  const int64_t ranks = found == groups.end() ? 1 : found->second->size();
  if (ranks != call.ranks)
    throw usage_error("[ranks] expected {} processes in the group {}, got {}", call.ranks,
                      call.group, ranks);
  return *found->second;
}

}  // namespace ridge::backends::bind
