// SPDX-License-Identifier: Apache-2.0
// Predicted time from counts and ceilings alone: no timing of the graph's own shapes enters. Time
// of a node = max(compute, memory) + overhead. The memory model asks how many bytes passed since a
// byte was last touched (the reuse distance over the schedule, in steady state), and takes the
// bandwidth of a working set of that size; and how much time passed, in which other programs took
// a shared cache's content away.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "cost/ceilings.h"
#include "cost/costed_graph.h"
#include "graph/graph.h"

namespace ridge::cost {

enum class Bound : uint8_t { kNone, kCompute, kMemory, kOverhead };
std::string_view name(Bound bound);  // "-", "compute", "memory", "overhead"

struct NodePrediction {
  double ns = 0;
  double compute_ns = 0;
  double memory_ns = 0;
  double overhead_ns = 0;
  // With the whole device at its best rate: what no neighbour can make shorter
  double limit_ns = 0;
  Bound bound = Bound::kNone;  // the largest of the three; kNone for a node that launches nothing
  double flops_per_byte = 0;   // executed FLOPs over planned bytes; 0 without bytes
};

// What a product rounds its activations to on the way, and so multiplies in; nothing where it takes
// them as they are.
std::optional<DType> rounded_to(const Node& node);

// One per node, in the setting of the whole graph: its layouts, addresses and reuse. The graph is
// taken as run over and over, so that what the previous run left in cache counts.
std::vector<NodePrediction> predict_nodes(const CostedGraph& costed, const Ceilings& ceilings);
double total_ns(const std::vector<NodePrediction>& predictions);

// A run of the graph whose nodes are predicted. Kernels come one after the other, or, where the
// plan has branches, as soon as what they wait for has ended: those at work at once share the
// device, and one that is at its limit leaves no room. Where each launch is made by itself, a
// kernel begins no sooner than the host has enqueued it.
double predict_run_ns(const CostedGraph& costed,
                      const std::vector<NodePrediction>& predictions,
                      const Ceilings& ceilings);
// The same from the counts alone.
double predict_run_ns(const CostedGraph& costed, const Ceilings& ceilings);

// A product by itself, operands in cache, without the call's overhead.
double predict_product_ns(const ProductRates& rates,
                          ProductForm form,
                          const ProductExtents& extents);

// The bound class that counts alone give: memory below the ridge point, compute above.
Bound roofline_bound(const Ceilings& ceilings, DType dtype, double flops_per_byte);

}  // namespace ridge::cost
