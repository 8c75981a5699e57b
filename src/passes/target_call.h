// SPDX-License-Identifier: Apache-2.0
// Asking the target for a kernel of a node that a pass might make.
#pragma once

#include <span>
#include <string_view>

#include "passes/pass.h"

namespace ridge::passes {

// Whether the target runs the op on operands of these values' types.
bool runs_on_target(const PassContext& context,
                    const Graph& graph,
                    std::string_view op,
                    std::span<const ValueId> inputs,
                    const Attrs& attrs);

}  // namespace ridge::passes
