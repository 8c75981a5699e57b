// SPDX-License-Identifier: Apache-2.0
// Shared by CUDA's bindings: the resources they may use, and the launch of a kernel function.
#pragma once

#include "backends/cuda/device.h"
#include "backends/cuda/device_error.h"
#include "backends/cuda/index_faults.h"
#include "backends/cuda/nccl.h"
#include "backends/cuda/tickets.h"
#include "backends/kernel.h"
#include "backends/row_layout.h"

namespace ridge::backends::cuda {

class GemmTuner;
class PointwiseCompiler;

// The resources that bindings may use. It must outlive the launches.
struct BindContext {
  Device& device;
  bool tf32 = false;
  GemmTuner& tuner;
  PointwiseCompiler& compiler;
  IndexFaults& faults;
  Tickets& tickets;
  const NcclGroups& groups;
};

// A launch of one kernel function on the device's stream:
// launch_on(device, "rms_norm", launch_rms_norm<float>, call).
template <typename Function, typename... Calls>
Launch launch_on(Device& device, const char* op, Function* function, const Calls&... calls) {
  return [&device, op, function, calls...] { check(function(calls..., device.stream()), op); };
}

inline Bind in_context(Launch (*bind)(const BindCall&, BindContext&), BindContext& context) {
  return [bind, &context](const BindCall& call) { return bind(call, context); };
}

}  // namespace ridge::backends::cuda
