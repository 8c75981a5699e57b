// SPDX-License-Identifier: Apache-2.0
// The compute time of attention, with or without a KV cache: GEMMs and the work per score.
#pragma once

#include <optional>

#include "cost/ceilings.h"
#include "cost/costed_graph.h"

namespace ridge::cost {

// Flash attention and its backward pass.
double attention_ns(const Graph& graph,
                    const Ceilings& ceilings,
                    const Node& node,
                    const Work& work);
double attention_call_ns(const Graph& graph, const Ceilings& ceilings, const Node& node);

// The time of an op on the cells of a KV cache. `memory_share` is 0 if the cells come from the
// caches and 1 if they come from memory. Empty for other nodes, for a prompt, whose tokens attend
// in tiles, and if the op was not measured.
std::optional<double> cache_op_ns(const Graph& graph,
                                  const Ceilings& ceilings,
                                  const Node& node,
                                  const NodeCost& cost,
                                  double memory_share);

}  // namespace ridge::cost
