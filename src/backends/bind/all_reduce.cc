// SPDX-License-Identifier: Apache-2.0
// Binding of all_reduce, whose outputs share the bytes of its inputs.
#include "backends/bind/all_reduce.h"

#include <fmt/format.h>

#include <utility>

namespace ridge::backends::bind {

Kernel all_reduce(std::function<Launch(const AllReduce&)> make) {
  return {.op = "all_reduce", .bind = [make = std::move(make)](const BindCall& call) -> Launch {
            AllReduce made;
            made.ranks = call.attrs().integer("ranks");
            if (made.ranks == 1) return [] {};
            made.group = call.attrs().text("group");
            made.average = call.attrs().flag("average");
            made.what = fmt::format("all_reduce of {} ({})", call.node.scope, made.group);
            for (const Operand& each : call.outputs)
              made.tensors.push_back({each.data, each.type.shape.elements(), each.type.dtype});
            return make(made);
          }};
}

}  // namespace ridge::backends::bind
