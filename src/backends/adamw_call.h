// SPDX-License-Identifier: Apache-2.0
// The kernels' call of adamw and adamw_multi, filled from a node's operands.
#pragma once

#include <vector>

#include "backends/backend.h"
#include "backends/kernels/adamw.h"

namespace ridge::backends {

AdamwStep adamw_step(const BindCall& call);
std::vector<AdamwTensor> adamw_tensors(const BindCall& call);

}  // namespace ridge::backends
