// SPDX-License-Identifier: Apache-2.0
// Reverse-mode differentiation on the graph: appends the backward nodes of a scalar loss. Each
// backward node carries the origins of its forward node, with the phase backward.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "graph/builder.h"

namespace ridge::passes {

// Appends the backward nodes to `graph` and returns d loss / d requires_gradient[i] in the type of
// requires_gradient[i], or kNoValue where the loss does not depend on it. `seed` is the gradient of
// the loss itself (1/m when m micro-batches are averaged).
std::vector<ValueId> differentiate(Graph& graph,
                                   const OpTable& ops,
                                   ValueId loss,
                                   std::span<const ValueId> requires_gradient,
                                   double seed = 1.0);

// The same with the gradient of the loss as a value that `seed` appends.
std::vector<ValueId> differentiate(Graph& graph,
                                   const OpTable& ops,
                                   ValueId loss,
                                   std::span<const ValueId> requires_gradient,
                                   const std::function<ValueId(Builder&)>& seed);

// The same for values of any shape and their gradients in the graph: the vector-Jacobian product.
std::vector<ValueId> pull_back(Graph& graph,
                               const OpTable& ops,
                               std::span<const ValueId> outputs,
                               std::span<const ValueId> output_gradients,
                               std::span<const ValueId> requires_gradient);

}  // namespace ridge::passes
