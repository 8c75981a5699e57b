// SPDX-License-Identifier: Apache-2.0
// How an op's CUDA binding describes itself, and what bindings share. The list is kernel_table.cc.
#pragma once

#include <string>
#include <string_view>

#include "backends/backend.h"
#include "backends/cuda/device.h"
#include "backends/cuda/device_error.h"
#include "backends/cuda/index_faults.h"
#include "backends/cuda/tickets.h"
#include "backends/row_layout.h"

namespace ridge::backends::cuda {

class GemmTuner;
class PointwiseCompiler;

// What bindings may use; it outlives the launches.
struct BindContext {
  Device& device;
  bool tf32 = false;
  GemmTuner& tuner;
  PointwiseCompiler& compiler;
  IndexFaults& faults;
  Tickets& tickets;
};

struct CudaKernel {
  std::string_view op;
  Launch (*bind)(const BindCall&, BindContext&) = nullptr;
  // Layouts besides dense ones that the kernel takes; null: none.
  bool (*takes_input)(const Call&, int input, const Layout&) = nullptr;
  bool (*takes_output)(const Call&, int output, const Layout&) = nullptr;
  int64_t vector_bytes = 1;  // operands begin at a multiple of this
  bool in_place = false;     // every output may overwrite any input of its type
  int64_t (*workspace_bytes)(const Call&) = nullptr;
  // Empty when the kernel takes the call's types and attributes, else what it does not; null: all.
  std::string (*unsupported)(const Call&) = nullptr;
  int (*launches)(const Call&, bool tf32) = nullptr;  // null: one
  int rounds = 1;  // trips to memory that wait for one another: operands, then what they point to,
                   // then sums of others'
  int (*rounds_of)(const Call&) = nullptr;  // where they depend on the call; null: `rounds`
};

const CudaKernel* find_kernel(std::string_view op);

// A launch of one kernel function on the device's stream:
// launch_on(device, "rms_norm", launch_rms_norm<float>, call).
template <typename Launcher, typename... Calls>
Launch launch_on(Device& device, const char* op, Launcher* launcher, const Calls&... calls) {
  return [&device, op, launcher, calls...] { check(launcher(calls..., device.stream()), op); };
}

}  // namespace ridge::backends::cuda
