// SPDX-License-Identifier: Apache-2.0
// What merge_qkv and merge_gate_up share: products of one input by several weights become one
// product by the weights stacked, and views of its result. The load graph learns where the stacked
// weight comes from.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "passes/pass.h"

namespace ridge::passes {

// The product "nd,fd->nf" of x by a parameter that ends at `value`, looking through reshapes,
// rotations and norms of heads; null when there is none.
const Node* projection_behind(const Graph& graph, ValueId value);

// Merges each group of products (same input, parameters read by nothing else). `stem` names the
// stacked weight: a group whose first weight is "a.b.q_proj.weight" becomes "a.b.<stem>.weight".
// Groups that do not fit are left alone.
Graph merge_products(const Graph& graph,
                     PassContext& context,
                     const std::vector<std::vector<const Node*>>& groups,
                     const std::string& stem);

}  // namespace ridge::passes
