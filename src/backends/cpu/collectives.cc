// SPDX-License-Identifier: Apache-2.0
// Bindings of the collectives to the communicators of their groups.
#include "backends/bind/collectives.h"

#include <cstring>

#include "backends/cpu/kernel_table.h"

namespace ridge::backends::cpu {
namespace {

Communicator& group_of(const Groups* groups, const bind::Collective& call) {
  static const Groups kNone;
  return bind::group_of(groups == nullptr ? kNone : *groups, call);
}

Launch copy_rows(const std::vector<bind::RowCopy>& copies) {
  return [copies] {
    for (const bind::RowCopy& each : copies)
      for (int64_t row = 0; row < each.rows; ++row)
        std::memcpy(each.to + row * each.to_stride, each.from + row * each.from_stride,
                    static_cast<size_t>(each.row_bytes));
  };
}

}  // namespace

std::vector<Kernel> collective_kernels(const Groups* groups) {
  return {bind::all_reduce([groups](const bind::AllReduce& call) -> Launch {
            Communicator& group = group_of(groups, call);
            return [call, &group] { group.all_reduce(call.tensors, call.average, call.what); };
          }),
          bind::all_gather({[groups](const bind::DividedCollective& call) -> Launch {
                              Communicator& group = group_of(groups, call);
                              return [call, &group] { group.all_gather(call.tensors, call.what); };
                            },
                            copy_rows}),
          bind::reduce_scatter({[groups](const bind::DividedCollective& call) -> Launch {
                                  Communicator& group = group_of(groups, call);
                                  return [call, &group] {
                                    group.reduce_scatter(call.tensors, call.average, call.what);
                                  };
                                },
                                copy_rows}),
          bind::send([groups](const bind::Transfer& call) -> Launch {
            Communicator& group = group_of(groups, call);
            return [call, &group] { group.send(call.tensor, call.what); };
          }),
          bind::receive(
              [groups](const bind::Transfer& call) -> Launch {
                Communicator& group = group_of(groups, call);
                return [call, &group] { group.receive(call.tensor, call.what); };
              },
              [](const Exchanged& tensor) -> Launch {
                const int64_t bytes = storage_bytes(tensor.dtype, tensor.elements);
                return [tensor, bytes] { std::memset(tensor.data, 0, static_cast<size_t>(bytes)); };
              })};
}

}  // namespace ridge::backends::cpu
