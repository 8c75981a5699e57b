// SPDX-License-Identifier: Apache-2.0
// Bindings of the losses: softmax_cross_entropy with its
// gradient, and log_softmax and nll_loss with theirs.
#include "backends/cpu/cpu_kernel.h"
#include "backends/cpu/kernels/losses/nll_loss.h"
#include "backends/cpu/kernels/losses/softmax_cross_entropy.h"
#include "backends/cpu/kernels/softmax/log_softmax.h"
#include "backends/cross_entropy_call.h"
#include "base/error.h"

namespace ridge::backends::cpu {
namespace {

void check_labels(const char* op, int64_t bad_row, int64_t vocabulary) {
  if (bad_row != kNoBadRow)
    throw runtime_error("[{}] expected labels from -1 to {}, row {} has another", op,
                        vocabulary - 1, bad_row);
}

Launch bind(const BindCall& call) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    return [s = softmax_cross_entropy_call<decltype(element)>(call)] {
      check_labels("softmax_cross_entropy", softmax_cross_entropy(s), s.vocabulary);
    };
  });
}

Launch bind_backward(const BindCall& call) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    return [s = softmax_cross_entropy_backward_call<decltype(element)>(call)] {
      check_labels("softmax_cross_entropy", softmax_cross_entropy_backward(s), s.vocabulary);
    };
  });
}

Launch bind_log_softmax(const BindCall& call) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    return [s = log_softmax_call<decltype(element)>(call)] { log_softmax(s); };
  });
}

Launch bind_log_softmax_backward(const BindCall& call) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    return [s = log_softmax_backward_call<decltype(element)>(call)] { log_softmax_backward(s); };
  });
}

Launch bind_nll(const BindCall& call) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    return [s = nll_loss_call<decltype(element)>(call)] {
      check_labels("nll_loss", nll_loss(s), s.vocabulary);
    };
  });
}

Launch bind_nll_backward(const BindCall& call) {
  return by_dtype(call.outputs[0].type.dtype, [&](auto element) -> Launch {
    return [s = nll_loss_backward_call<decltype(element)>(call)] {
      check_labels("nll_loss", nll_loss_backward(s), s.vocabulary);
    };
  });
}

int64_t workspace(const Call& call) {
  return softmax_cross_entropy_workspace_bytes(call.inputs[0].shape[0]);
}

}  // namespace

const CpuKernel& softmax_cross_entropy_kernel() {
  static const CpuKernel kernel{.op = "softmax_cross_entropy",
                                .bind = bind,
                                .takes_input = first_lies_in_rows,
                                .workspace_bytes = workspace};
  return kernel;
}

const CpuKernel& softmax_cross_entropy_backward_kernel() {
  static const CpuKernel kernel{.op = "softmax_cross_entropy_backward",
                                .bind = bind_backward,
                                .takes_input = first_lies_in_rows,
                                .takes_output = logits_lie_in_rows,
                                .in_place = true};
  return kernel;
}

const CpuKernel& log_softmax_kernel() {
  static const CpuKernel kernel{.op = "log_softmax",
                                .bind = bind_log_softmax,
                                .takes_input = lies_in_rows,
                                .takes_output = output_lies_in_rows,
                                .in_place = true};
  return kernel;
}

const CpuKernel& log_softmax_backward_kernel() {
  static const CpuKernel kernel{.op = "log_softmax_backward",
                                .bind = bind_log_softmax_backward,
                                .takes_input = lies_in_rows,
                                .takes_output = output_lies_in_rows,
                                .in_place = true};
  return kernel;
}

const CpuKernel& nll_loss_kernel() {
  static const CpuKernel kernel{
      .op = "nll_loss", .bind = bind_nll, .takes_input = first_lies_in_rows};
  return kernel;
}

const CpuKernel& nll_loss_backward_kernel() {
  static const CpuKernel kernel{.op = "nll_loss_backward", .bind = bind_nll_backward};
  return kernel;
}

}  // namespace ridge::backends::cpu
