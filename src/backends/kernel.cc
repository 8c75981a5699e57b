// SPDX-License-Identifier: Apache-2.0
// Looks up an op in a kernel table.
#include "backends/kernel.h"

#include "base/pointwise.h"

namespace ridge::backends {

const Kernel* KernelTable::find(std::string_view op) const {
  const std::string_view listed = parse_pointwise(op) ? std::string_view() : op;
  for (const Kernel& kernel : kernels_)
    if (kernel.op == listed) return &kernel;
  return nullptr;
}

}  // namespace ridge::backends
