// SPDX-License-Identifier: Apache-2.0
// NVTX ranges named for nodes, which Nsight Systems shows
// beside kernels. Without such a tool they do nothing.
#pragma once

#include "backends/backend.h"

namespace ridge::backends::cuda {

// The launch inside a range named "layer.3/attention/matmul".
Launch in_nvtx_range(Launch launch, const Node& node);

}  // namespace ridge::backends::cuda
