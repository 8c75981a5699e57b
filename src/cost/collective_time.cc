// SPDX-License-Identifier: Apache-2.0
// Predicts a collective from the bytes that a rank sends.
#include "cost/collective_time.h"

namespace ridge::cost {

NodePrediction predict_collective(const CostedGraph& costed, size_t i, const Ceilings& ceilings) {
  const Node& node = costed.graph.nodes[i];
  const NodeCost& cost = costed.costs[i];
  NodePrediction p;
  // A rank receives in the time in which the other one sends.
  const bool is_received = node.op->name == "receive" && node.attrs.integer("ranks") > 1;
  const int64_t bytes = is_received ? cost.written_bytes : cost.sent_bytes;
  if (bytes == 0) return p;
  const LinkRates link = ceilings.link(node.attrs.integer("ranks"));
  p.overhead_ns = link.call_ns;
  p.limit_ns = p.memory_ns = link.ns(bytes) - link.call_ns;
  p.ns = link.ns(bytes);
  p.bound = p.overhead_ns > p.memory_ns ? Bound::kOverhead : Bound::kLink;
  return p;
}

}  // namespace ridge::cost
