// SPDX-License-Identifier: Apache-2.0
// Looks up an op in a kernel table, and an element type among those of a kernel.
#include "backends/kernel.h"

#include "base/error.h"
#include "base/pointwise.h"

namespace ridge::backends {

const Kernel* KernelTable::find(std::string_view op) const {
  const std::string_view listed = parse_pointwise(op) ? std::string_view() : op;
  for (const Kernel& kernel : kernels_)
    if (kernel.op == listed) return &kernel;
  return nullptr;
}

void refuse_element_type(DType dtype) {
  throw InternalError(fmt::format("no kernel of this op is compiled for {}", name(dtype)));
}

}  // namespace ridge::backends
