// SPDX-License-Identifier: Apache-2.0
// The table of CPU bindings.
#include "backends/cpu/cpu_kernel.h"
#include "backends/kernel_list.h"

namespace ridge::backends::cpu {

const CpuKernel& pointwise_kernel();
#define RIDGE_DECLARE(name) const CpuKernel& name##_kernel();
RIDGE_KERNELS(RIDGE_DECLARE)
#undef RIDGE_DECLARE

const CpuKernel* find_kernel(std::string_view op) {
#define RIDGE_LIST(name) &name##_kernel(),
  static const std::array kernels = {RIDGE_KERNELS(RIDGE_LIST)};
#undef RIDGE_LIST
  return backends::find_kernel(kernels, pointwise_kernel(), op);
}

}  // namespace ridge::backends::cpu
