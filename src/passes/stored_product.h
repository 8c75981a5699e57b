// SPDX-License-Identifier: Apache-2.0
// What group_products and quantize_activations share: GEMMs with weights that stay as a file stores
// them.
#pragma once

#include <span>
#include <string>

#include "passes/pass.h"

namespace ridge::passes {

// Whether the node is x[N,in] in fp32 by a parameter W[out,in] of another type.
bool is_stored_product(const Graph& graph, const Node& node);

// Whether the target has a kernel for matmul_group of these operands.
bool runs_group(const PassContext& context,
                const Graph& graph,
                std::span<const ValueId> inputs,
                const std::string& activations);

}  // namespace ridge::passes
