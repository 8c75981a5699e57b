// SPDX-License-Identifier: Apache-2.0
// The layers of a model are alike, except that some have windows. So plans build and optimize a
// graph of few layers: the first two, one of each kind, and the last. They copy the nodes of the
// others.
#pragma once

#include <optional>

#include "graph/graph.h"
#include "models/config.h"

namespace ridge::serve {

// The same model with as few layers as with_all_layers needs; empty if it has no more than that.
std::optional<models::ModelConfig> with_few_layers(const models::ModelConfig& config);

// The graph of all layers, from that of few after the passes: the same nodes in the same order.
// Empty if the passes made different nodes of layers that are alike.
std::optional<Graph> with_all_layers(const Graph& graph,
                                     const models::ModelConfig& few,
                                     const models::ModelConfig& config);

}  // namespace ridge::serve
