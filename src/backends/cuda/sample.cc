// SPDX-License-Identifier: Apache-2.0
// Binding of sample.
#include "backends/cuda/kernels/sample.h"

#include "backends/cuda/cuda_kernel.h"
#include "base/error.h"

namespace ridge::backends::cuda {
namespace {

Launch bind(const BindCall& call, BindContext& context) {
  Sample s;
  s.slots = call.inputs[0].type.shape[0];
  s.vocabulary = call.inputs[0].type.shape[1];
  s.recent_tokens = call.inputs[2].type.shape[1];
  s.logits = rows<const float>(call.inputs[0]);
  s.tokens = call.outputs[0].as<int32_t>();
  s.recent = call.outputs[1].as<int32_t>();
  s.next_positions = call.inputs[3].as<const int32_t>();
  s.settings = call.inputs[4].as<const SampleSettings>();
  s.seeds = call.inputs[5].as<const int32_t>();
  s.workspace = reinterpret_cast<uint64_t*>(call.workspace);
  s.tickets = context.tickets.take(s.slots);
  return launch_on(context.device, "sample", launch_sample, s);
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
