// SPDX-License-Identifier: Apache-2.0
// Binding of all_reduce to the communicator of its group.
#include "backends/collectives/communicator.h"
#include "backends/cpu/kernel_table.h"
#include "base/error.h"

namespace ridge::backends::cpu {

Kernel all_reduce_kernel(const Groups* groups) {
  return {.op = "all_reduce", .bind = [groups](const BindCall& call) -> Launch {
            const int64_t ranks = call.attrs().integer("ranks");
            if (ranks == 1) return [] {};
            const std::string& name = call.attrs().text("group");
            const auto group = groups == nullptr ? Groups::const_iterator() : groups->find(name);
            if (groups == nullptr || group == groups->end() || group->second->size() != ranks)
              throw usage_error(
                  "[ranks] expected {} processes in the group {}, got {}", ranks, name,
                  groups == nullptr || group == groups->end() ? 1 : group->second->size());
            std::vector<Exchanged> tensors;
            for (const Operand& each : call.outputs)
              tensors.push_back({each.data, each.type.shape.elements(), each.type.dtype});
            return [tensors, communicator = group->second.get(),
                    average = call.attrs().flag("average"),
                    what = fmt::format("all_reduce of {} ({})", call.node.scope, name)] {
              communicator->all_reduce(tensors, average, what);
            };
          }};
}

}  // namespace ridge::backends::cpu
