// SPDX-License-Identifier: Apache-2.0
// NVTX ranges named after nodes, which Nsight Systems shows next to kernels. Without such a tool
// they do nothing.
#pragma once

#include "backends/backend.h"

namespace ridge::backends::cuda {

// Wraps the launch in a range with a name like "layer.3/attention/matmul".
Launch in_nvtx_range(Launch launch, const Node& node);

}  // namespace ridge::backends::cuda
