// SPDX-License-Identifier: Apache-2.0
// Predicts a collective from the bytes that a rank sends.
#include "cost/collective_time.h"

namespace ridge::cost {

NodePrediction predict_collective(const CostedGraph& costed, size_t i, const Ceilings& ceilings) {
  const Node& node = costed.graph.nodes[i];
  const NodeCost& cost = costed.costs[i];
  NodePrediction p;
  if (cost.sent_bytes == 0) return p;
  const LinkRates link = ceilings.link(node.attrs.integer("ranks"));
  p.overhead_ns = link.call_ns;
  p.limit_ns = p.memory_ns = link.ns(cost.sent_bytes) - link.call_ns;
  p.ns = link.ns(cost.sent_bytes);
  p.bound = p.overhead_ns > p.memory_ns ? Bound::kOverhead : Bound::kLink;
  return p;
}

}  // namespace ridge::cost
