// SPDX-License-Identifier: Apache-2.0
// Bindings of the losses: softmax_cross_entropy with its
// gradient, and log_softmax and nll_loss with theirs.
#include "backends/cross_entropy_call.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/losses/nll_loss.h"
#include "backends/cuda/kernels/losses/softmax_cross_entropy.h"
#include "backends/cuda/kernels/softmax/log_softmax.h"
#include "base/error.h"

namespace ridge::backends::cuda {
namespace {

// Labels by row.
template <typename Call>
Watched<Call> with_watch(const Call& call, const char* op, BindContext& context) {
  return {call, context.faults.watch(op, "labels", "row", call.vocabulary)};
}

Launch bind(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    using Watching = Watched<SoftmaxCrossEntropy<T>>;
    return launch_on(context.device, "softmax_cross_entropy", launch_softmax_cross_entropy<T>,
                     Ticketed<Watching>{with_watch(softmax_cross_entropy_call<T>(call),
                                                   "softmax_cross_entropy", context),
                                        context.tickets.take()});
  });
}

Launch bind_backward(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    return launch_on(
        context.device, "softmax_cross_entropy_backward", launch_softmax_cross_entropy_backward<T>,
        with_watch(softmax_cross_entropy_backward_call<T>(call), "softmax_cross_entropy", context));
  });
}

Launch bind_log_softmax(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    return launch_on(context.device, "log_softmax", launch_log_softmax<T>,
                     log_softmax_call<T>(call));
  });
}

Launch bind_log_softmax_backward(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    return launch_on(context.device, "log_softmax_backward", launch_log_softmax_backward<T>,
                     log_softmax_backward_call<T>(call));
  });
}

Launch bind_nll(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    return launch_on(context.device, "nll_loss", launch_nll_loss<T>,
                     with_watch(nll_loss_call<T>(call), "nll_loss", context));
  });
}

Launch bind_nll_backward(const BindCall& call, BindContext& context) {
  return by_dtype(call.outputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    return launch_on(context.device, "nll_loss_backward", launch_nll_loss_backward<T>,
                     with_watch(nll_loss_backward_call<T>(call), "nll_loss", context));
  });
}

int64_t workspace(const Call& call) {
  return softmax_cross_entropy_workspace_bytes(call.inputs[0].shape[0]);
}

// Without a vocabulary there is no element whose kernel would refuse the labels.
std::string unsupported(const Call& call) {
  if (call.inputs[0].shape.back() > 0) return "";
  return fmt::format("expected a vocabulary of at least one, got {}", call.inputs[0].str());
}

}  // namespace

const CudaKernel& softmax_cross_entropy_kernel() {
  static const CudaKernel kernel{.op = "softmax_cross_entropy",
                                 .bind = bind,
                                 .takes_input = first_lies_in_rows,
                                 .workspace_bytes = workspace,
                                 .unsupported = unsupported,
                                 .rounds = 6};
  return kernel;
}

const CudaKernel& softmax_cross_entropy_backward_kernel() {
  static const CudaKernel kernel{.op = "softmax_cross_entropy_backward",
                                 .bind = bind_backward,
                                 .takes_input = first_lies_in_rows,
                                 .takes_output = logits_lie_in_rows,
                                 .in_place = true,
                                 .unsupported = unsupported};
  return kernel;
}

const CudaKernel& log_softmax_kernel() {
  static const CudaKernel kernel{.op = "log_softmax",
                                 .bind = bind_log_softmax,
                                 .takes_input = lies_in_rows,
                                 .takes_output = output_lies_in_rows,
                                 .in_place = true,
                                 .rounds = 2};
  return kernel;
}

const CudaKernel& log_softmax_backward_kernel() {
  static const CudaKernel kernel{.op = "log_softmax_backward",
                                 .bind = bind_log_softmax_backward,
                                 .takes_input = lies_in_rows,
                                 .takes_output = output_lies_in_rows,
                                 .in_place = true,
                                 .rounds = 2};
  return kernel;
}

const CudaKernel& nll_loss_kernel() {
  static const CudaKernel kernel{
      .op = "nll_loss", .bind = bind_nll, .takes_input = first_lies_in_rows, .rounds = 4};
  return kernel;
}

const CudaKernel& nll_loss_backward_kernel() {
  static const CudaKernel kernel{.op = "nll_loss_backward",
                                 .bind = bind_nll_backward,
                                 .unsupported = unsupported,
                                 .rounds = 2};
  return kernel;
}

}  // namespace ridge::backends::cuda
