// SPDX-License-Identifier: Apache-2.0
// Binding of sample.
#include "backends/cuda/kernels/sample.h"

#include "backends/cuda/cuda_kernel.h"
#include "backends/sample_call.h"
#include "base/error.h"

namespace ridge::backends::cuda {
namespace {

Launch bind(const BindCall& call, BindContext& context) {
  Sample s = sample_call(call);
  return launch_on(context.device, "sample", launch_sample,
                   Ticketed<Sample>{s, context.tickets.take(s.slots)});
}

int64_t workspace(const Call& call) {
  return sample_workspace_bytes(call.inputs[0].shape[0], call.inputs[0].shape[1]);
}

std::string unsupported(const Call& call) {
  if (call.inputs[0].shape[1] <= kSampleMostVocabulary) return "";
  return fmt::format("expected a vocabulary of at most {}, got {}", kSampleMostVocabulary,
                     call.inputs[0].shape[1]);
}

}  // namespace

const CudaKernel& sample_kernel() {
  static const CudaKernel kernel{.op = "sample",
                                 .bind = bind,
                                 .takes_input = first_lies_in_rows,
                                 .workspace_bytes = workspace,
                                 .unsupported = unsupported,
                                 .rounds = 4};
  return kernel;
}

}  // namespace ridge::backends::cuda
