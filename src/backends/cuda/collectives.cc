// SPDX-License-Identifier: Apache-2.0
// Bindings of the collectives to the NCCL communicators of their groups.
#include "backends/bind/collectives.h"

#include "backends/cuda/bind_context.h"
#include "backends/cuda/kernel_table.h"

namespace ridge::backends::cuda {

std::vector<Kernel> collective_kernels(BindContext& context) {
  const auto copy = [&device = context.device](const std::vector<bind::RowCopy>& copies) -> Launch {
    return [copies, &device] {
      for (const bind::RowCopy& each : copies)
        check(cudaMemcpy2DAsync(each.to, static_cast<size_t>(each.to_stride), each.from,
                                static_cast<size_t>(each.from_stride),
                                static_cast<size_t>(each.row_bytes), static_cast<size_t>(each.rows),
                                cudaMemcpyDeviceToDevice, device.stream()),
              "copying rows on the GPU");
    };
  };
  const auto all_reduce = [&context](const bind::AllReduce& call) -> Launch {
    const NcclGroup& group = bind::group_of(context.groups, call);
    return [call, &group, &device = context.device] {
      group.all_reduce(call.tensors, call.average, device.stream());
    };
  };
  const auto all_gather = [&context](const bind::DividedCollective& call) -> Launch {
    const NcclGroup& group = bind::group_of(context.groups, call);
    return [call, &group, &device = context.device] {
      group.all_gather(call.tensors, device.stream());
    };
  };
  const auto reduce_scatter = [&context](const bind::DividedCollective& call) -> Launch {
    const NcclGroup& group = bind::group_of(context.groups, call);
    return [call, &group, &device = context.device] {
      group.reduce_scatter(call.tensors, call.average, device.stream());
    };
  };
  const auto send = [&context](const bind::Transfer& call) -> Launch {
    const NcclGroup& group = bind::group_of(context.groups, call);
    return [call, &group, &device = context.device] { group.send(call.tensor, device.stream()); };
  };
  const auto receive = [&context](const bind::Transfer& call) -> Launch {
    const NcclGroup& group = bind::group_of(context.groups, call);
    return
        [call, &group, &device = context.device] { group.receive(call.tensor, device.stream()); };
  };
  const auto clear = [&device = context.device](const Exchanged& tensor) -> Launch {
    return [tensor, &device] {
      check(cudaMemsetAsync(tensor.data, 0,
                            static_cast<size_t>(storage_bytes(tensor.dtype, tensor.elements)),
                            device.stream()),
            "clearing a tensor on the GPU");
    };
  };
  return {bind::all_reduce(all_reduce), bind::all_gather({all_gather, copy}),
          bind::reduce_scatter({reduce_scatter, copy}), bind::send(send),
          bind::receive(receive, clear)};
}

}  // namespace ridge::backends::cuda
