// SPDX-License-Identifier: Apache-2.0
// Binding of sample.
#include "backends/cpu/kernels/sample.h"

#include "backends/cpu/cpu_kernel.h"
#include "backends/sample_call.h"

namespace ridge::backends::cpu {
namespace {

Launch bind(const BindCall& call) {
  return [s = sample_call(call)] { sample(s); };
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
