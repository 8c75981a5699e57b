// SPDX-License-Identifier: Apache-2.0
// Bindings of the losses: softmax_cross_entropy with its gradient, and log_softmax and nll_loss
// with theirs.
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/log_softmax.h"
#include "backends/cuda/kernels/nll_loss.h"
#include "backends/cuda/kernels/softmax_cross_entropy.h"
#include "base/error.h"

namespace ridge::backends::cuda {
namespace {

Launch bind(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    SoftmaxCrossEntropy<T> s;
    s.tokens = call.inputs[0].type.shape[0];
    s.vocabulary = call.inputs[0].type.shape[1];
    s.logits = rows<const T>(call.inputs[0]);
    s.labels = call.inputs[1].as<const int32_t>();
    s.loss = call.outputs[0].as<float>();
    s.lse = call.outputs[1].as<float>();
    s.count = call.outputs[2].as<int32_t>();
    s.workspace = reinterpret_cast<double*>(call.workspace);
    s.bad_row = context.faults.watch("softmax_cross_entropy", "labels", "row", s.vocabulary);
    return launch_on(context.device, "softmax_cross_entropy", launch_softmax_cross_entropy<T>, s);
  });
}

// Inputs logits, labels, lse, the count, the loss's gradient.
Launch bind_backward(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    SoftmaxCrossEntropyBackward<T> s;
    s.tokens = call.inputs[0].type.shape[0];
    s.vocabulary = call.inputs[0].type.shape[1];
    s.logits = rows<const T>(call.inputs[0]);
    s.labels = call.inputs[1].as<const int32_t>();
    s.lse = call.inputs[2].as<const float>();
    s.count = call.inputs[3].as<const int32_t>();
    s.d_loss = call.inputs[4].as<const float>();
    s.d_logits = rows<T>(call.outputs[0]);
    s.bad_row = context.faults.watch("softmax_cross_entropy", "labels", "row", s.vocabulary);
    return launch_on(context.device, "softmax_cross_entropy_backward",
                     launch_softmax_cross_entropy_backward<T>, s);
  });
}

Launch bind_log_softmax(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    const Shape& shape = call.inputs[0].type.shape;
    LogSoftmax<T> s{shape[0], shape[1], rows<const T>(call.inputs[0]), rows<T>(call.outputs[0])};
    return launch_on(context.device, "log_softmax", launch_log_softmax<T>, s);
  });
}

Launch bind_log_softmax_backward(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    const Shape& shape = call.inputs[0].type.shape;
    LogSoftmaxBackward<T> s{shape[0], shape[1], rows<const T>(call.inputs[0]),
                            rows<const T>(call.inputs[1]), rows<T>(call.outputs[0])};
    return launch_on(context.device, "log_softmax_backward", launch_log_softmax_backward<T>, s);
  });
}

Launch bind_nll(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    const Shape& shape = call.inputs[0].type.shape;
    NllLoss<T> s{shape[0],
                 shape[1],
                 rows<const T>(call.inputs[0]),
                 call.inputs[1].as<const int32_t>(),
                 call.outputs[0].as<float>(),
                 call.outputs[1].as<int32_t>()};
    s.bad_row = context.faults.watch("nll_loss", "labels", "row", s.vocabulary);
    return launch_on(context.device, "nll_loss", launch_nll_loss<T>, s);
  });
}

// Inputs log probabilities (for their shape), labels, the count, the loss's gradient.
Launch bind_nll_backward(const BindCall& call, BindContext& context) {
  return by_dtype(call.outputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    const Shape& shape = call.inputs[0].type.shape;
    NllLossBackward<T> s{shape[0],
                         shape[1],
                         call.inputs[1].as<const int32_t>(),
                         call.inputs[3].as<const float>(),
                         call.inputs[2].as<const int32_t>(),
                         rows<T>(call.outputs[0])};
    s.bad_row = context.faults.watch("nll_loss", "labels", "row", s.vocabulary);
    return launch_on(context.device, "nll_loss_backward", launch_nll_loss_backward<T>, s);
  });
}

int launches(const Call&, bool) { return kSoftmaxCrossEntropyLaunches; }

int64_t workspace(const Call& call) {
  return softmax_cross_entropy_workspace_bytes(call.inputs[0].shape[0]);
}

// Without a vocabulary there is no element whose kernel would refuse the labels.
std::string unsupported(const Call& call) {
  if (call.inputs[0].shape.back() > 0) return "";
  return fmt::format("expected a vocabulary of at least one, got {}", call.inputs[0].str());
}

bool takes_logits(const Call& call, int input, const Layout& layout) {
  return input == 0 && lies_in_rows(call, input, layout);
}
bool puts_logits(const Call& call, int output, const Layout& layout) {
  return call.outputs[0].shape.rank() == 2 && output_lies_in_rows(call, output, layout);
}

}  // namespace

const CudaKernel& softmax_cross_entropy_kernel() {
  static const CudaKernel kernel{.op = "softmax_cross_entropy",
                                 .bind = bind,
                                 .takes_input = takes_logits,
                                 .workspace_bytes = workspace,
                                 .unsupported = unsupported,
                                 .launches = launches,
                                 .rounds = 6};
  return kernel;
}

const CudaKernel& softmax_cross_entropy_backward_kernel() {
  static const CudaKernel kernel{.op = "softmax_cross_entropy_backward",
                                 .bind = bind_backward,
                                 .takes_input = takes_logits,
                                 .takes_output = puts_logits,
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
      .op = "nll_loss", .bind = bind_nll, .takes_input = takes_logits, .rounds = 4};
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
