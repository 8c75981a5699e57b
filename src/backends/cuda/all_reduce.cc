// SPDX-License-Identifier: Apache-2.0
// Binding of all_reduce to the NCCL communicator of its group.
#include "backends/bind/all_reduce.h"
#include "backends/cuda/bind_context.h"
#include "backends/cuda/kernel_table.h"

namespace ridge::backends::cuda {

Kernel all_reduce_kernel(BindContext& context) {
  return bind::all_reduce([&context](const bind::AllReduce& call) -> Launch {
    const NcclGroup& group = bind::group_of(context.groups, call);
    return [call, &group, &device = context.device] {
      group.all_reduce(call.tensors, call.average, device.stream());
    };
  });
}

}  // namespace ridge::backends::cuda
