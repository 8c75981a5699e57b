// SPDX-License-Identifier: Apache-2.0
// Binding of sample.
#include "backends/cpu/kernels/sample.h"

#include "backends/cpu/cpu_kernel.h"

namespace ridge::backends::cpu {
namespace {

Launch bind(const BindCall& call) {
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
  s.workspace = call.workspace;
  return [s] { sample(s); };
}

int64_t workspace(const Call& call) { return sample_workspace_bytes(call.inputs[0].shape[1]); }

}  // namespace

const CpuKernel& sample_kernel() {
  static const CpuKernel kernel{.op = "sample",
                                .bind = bind,
                                .takes_input = first_lies_in_rows,
                                .workspace_bytes = workspace};
  return kernel;
}

}  // namespace ridge::backends::cpu
