// SPDX-License-Identifier: Apache-2.0
// Binding of all_reduce to the communicator of its group.
#include "backends/bind/all_reduce.h"

#include "backends/cpu/kernel_table.h"

namespace ridge::backends::cpu {

Kernel all_reduce_kernel(const Groups* groups) {
  return bind::all_reduce([groups](const bind::AllReduce& call) -> Launch {
    static const Groups kNone;
    Communicator& group = bind::group_of(groups == nullptr ? kNone : *groups, call);
    return [call, &group] { group.all_reduce(call.tensors, call.average, call.what); };
  });
}

}  // namespace ridge::backends::cpu
