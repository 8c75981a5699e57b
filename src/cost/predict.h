// SPDX-License-Identifier: Apache-2.0
// Predicts times from counts and ceilings alone; no timing of the graph's own shapes is used. The
// time of a node is max(compute, memory) + overhead. The memory model takes the reuse distance of
// each byte (the bytes accessed since its last use, over the schedule, in steady state) and uses
// the bandwidth of a working set of that size.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/ceilings.h"
#include "cost/costed_graph.h"
#include "graph/graph.h"

namespace ridge::cost {

enum class Bound : uint8_t { kNone, kCompute, kMemory, kOverhead, kLink };
constexpr size_t kBounds = 5;
std::string_view name(Bound bound);  // "-", "compute", "memory", "overhead", "link"

// Says what predictions of inference leave out on a machine; empty if nothing of it is known.
std::string_view left_out_of_inference(const Ceilings& ceilings);

struct NodePrediction {
  double ns = 0;
  double compute_ns = 0;
  double memory_ns = 0;  // a collective has the time of its link here
  double overhead_ns = 0;
  // Lower bound: the whole device at its best rate.
  double limit_ns = 0;
  Bound bound = Bound::kNone;  // the largest of the three; kNone for a node that launches nothing
  double flops_per_byte = 0;   // executed FLOPs over planned bytes; 0 without bytes
};

// The type to which a GEMM rounds its activations before it multiplies; empty if it does not round
// them.
std::optional<DType> rounded_to(const Node& node);

// One prediction per node, in the context of the whole graph: its layouts, addresses and reuse. The
// graph is assumed to run repeatedly, so the cache holds what the previous run left.
std::vector<NodePrediction> predict_nodes(const CostedGraph& costed, const Ceilings& ceilings);
double total_ns(const std::vector<NodePrediction>& predictions);

// The time of one run of the graph, from its nodes' predictions. Kernels run one after the other
// or, if the plan has branches, as soon as their dependences have ended; concurrent kernels share
// the device. If the host launches kernels one by one, a kernel starts no earlier than it is
// enqueued.
double predict_run_ns(const CostedGraph& costed,
                      const std::vector<NodePrediction>& predictions,
                      const Ceilings& ceilings);
// The same, with predictions from the counts.
double predict_run_ns(const CostedGraph& costed, const Ceilings& ceilings);

// The time of a run among many that the host enqueues before it waits for any: the device's or, if
// the host launches kernels one by one and that takes longer, the host's.
double predict_repeated_ns(const CostedGraph& costed,
                           const std::vector<NodePrediction>& predictions,
                           const Ceilings& ceilings);

// The time of one GEMM with its operands in cache, without the overhead of the call.
double predict_product_ns(const ProductRates& rates,
                          ProductForm form,
                          const ProductExtents& extents);

// The lowest roof over some work in the roofline: the bandwidth of memory at its intensity, or the
// rate of its arithmetic. That is the GEMM peak of `dtype` if most FLOPs are MACs, and the vector
// rate otherwise.
struct Roof {
  std::string name;  // "memory", "f32 GEMM", "vector"
  double flops_per_ns = 0;
};
Roof gemm_roof(const Ceilings& ceilings, DType dtype);
Roof vector_roof(const Ceilings& ceilings);  // 0 if the machine's rate is unknown
Roof roof(const Ceilings& ceilings, DType dtype, const Work& work, int64_t bytes);

}  // namespace ridge::cost
