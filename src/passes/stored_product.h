// SPDX-License-Identifier: Apache-2.0
// What group_products and quantize_activations share: GEMMs with weights that stay as a file stores
// them.
#pragma once

#include "graph/graph.h"

namespace ridge::passes {

// Whether the node is x[N,in] in fp32 by a parameter W[out,in] of another type.
bool is_stored_product(const Graph& graph, const Node& node);

}  // namespace ridge::passes
