// SPDX-License-Identifier: Apache-2.0
// Binding of all_reduce_add_rms_norm.
#include <fmt/format.h>

#include "backends/bind/bindings.h"
#include "backends/bind/collectives.h"
#include "backends/cuda/kernel_table.h"
#include "backends/cuda/kernels/rms_norm/rms_norm.h"

namespace ridge::backends::cuda {
namespace {

template <typename T>
Launch bind_rows(const BindCall& call, BindContext& context) {
  const AddRmsNorm<T> norm = bind::add_rms_norm_of<T>(call);
  const bind::Collective among = bind::collective_of(call);
  if (among.ranks == 1)
    return launch_on(context.device, "all_reduce_add_rms_norm", launch_add_rms_norm<T>, norm.norm,
                     norm.residual, norm.sum);
  const NcclGroup& group = bind::group_of(context.groups, among);
  return [norm, &group, &device = context.device] { group.add_rms_norm(norm, device.stream()); };
}

Launch bind(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype,
                  [&](auto element) { return bind_rows<decltype(element)>(call, context); });
}

std::string unsupported(const Call& call) {
  const Type& x = call.inputs[0];
  if (takes_peer_add_rms_norm(x.shape[0], x.shape[1], x.dtype)) return "";
  return fmt::format("expected a few rows in fp32 or bf16, got {}", x.str());
}

}  // namespace

Kernel all_reduce_add_rms_norm_kernel(BindContext& context) {
  return {.op = "all_reduce_add_rms_norm",
          .bind = in_context(bind, context),
          .unsupported = unsupported};
}

}  // namespace ridge::backends::cuda
