// SPDX-License-Identifier: Apache-2.0
// The rates of attention, and what a node takes at them.
#include "cost/attention_time.h"

#include <algorithm>
#include <cmath>

#include "cost/program_time.h"
#include "ops/attention.h"
#include "ops/registry.h"

namespace ridge::cost {
namespace {

// Null if it has none.
const CacheRates* cache_rates(const Graph& graph, const Ceilings& ceilings, const Node& node) {
  if (node.inputs.empty()) return nullptr;
  if (is_a(node, ops::cached_attention_op()) &&
      graph.shape(node.inputs[0])[0] > graph.shape(node.inputs[5])[0])
    return nullptr;
  const size_t cache = is_a(node, ops::cached_mask_op()) ? 0 : 1;
  if (node.inputs.size() <= cache) return nullptr;
  return ceilings.cache_rates(node.op->name, graph.type(node.inputs[cache]).dtype);
}

bool is_backward(const Node& attention) {
  return attention.op->time_law == TimeLaw::kAttentionBackward;
}

const Type& queries(const Graph& graph, const Node& attention) {
  return graph.type(attention.inputs[is_backward(attention) ? 1 : 0]);
}

const AttentionRates* attention_rates(const Graph& graph,
                                      const Ceilings& ceilings,
                                      const Node& attention) {
  const AttentionRates* rates = nullptr;
  for (const AttentionRates& each : ceilings.attention)
    if (each.dtype == queries(graph, attention).dtype || rates == nullptr) rates = &each;
  return rates;
}

// Linear in the logarithm of the sequence's length.
double slowdown_at(int64_t tokens, double short_slowdown) {
  const double low = static_cast<double>(AttentionRates::kShortTokens),
               high = static_cast<double>(AttentionRates::kLongTokens),
               length = static_cast<double>(std::max<int64_t>(tokens, 1));
  const double share = std::clamp(std::log(high / length) / std::log(high / low), 0.0, 1.0);
  return 1 + share * (short_slowdown - 1);
}

}  // namespace

double attention_ns(const Graph& graph,
                    const Ceilings& ceilings,
                    const Node& node,
                    const Work& work) {
  bool backward = is_backward(node);
  const Type& q = queries(graph, node);
  const AttentionRates* rates = attention_rates(graph, ceilings, node);
  if (rates == nullptr)
    return ns_at(static_cast<double>(2 * work.macs), ceilings.peak_flops_per_ns(q.dtype)) +
           fused_ns(ceilings, {0, work.flops - 2 * work.macs, work.transcendentals});
  // The rates of the backward pass are those of each score once, also where kernels recompute it.
  double size = static_cast<double>(q.shape.back());
  double scores =
      backward ? static_cast<double>(ops::flash_backward_scores(CallTypes(graph, node).call()))
               : static_cast<double>(work.macs) / std::max(2 * size, 1.0);
  double flops = (backward ? 10 : 4) * size * scores;
  const double slowdown =
      slowdown_at(node.attrs.has("sequence") ? node.attrs.integer("sequence") : q.shape[0],
                  backward ? rates->backward_short_slowdown : rates->forward_short_slowdown);
  return slowdown * (backward ? ns_at(flops, rates->backward_flops_per_ns) +
                                    ns_at(scores, rates->backward_scores_per_ns)
                              : ns_at(flops, rates->forward_flops_per_ns) +
                                    ns_at(scores, rates->forward_scores_per_ns));
}

double attention_call_ns(const Graph& graph, const Ceilings& ceilings, const Node& attention) {
  const AttentionRates* rates = attention_rates(graph, ceilings, attention);
  if (rates == nullptr) return 0;
  return is_backward(attention) ? rates->backward_call_ns : rates->forward_call_ns;
}

std::optional<double> cache_op_ns(const Graph& graph,
                                  const Ceilings& ceilings,
                                  const Node& node,
                                  const NodeCost& cost,
                                  double memory_share) {
  const CacheRates* found = cache_rates(graph, ceilings, node);
  if (found == nullptr) return {};
  const CacheRates& rates = *found;
  const bool both = is_a(node, ops::cached_attention_op());  // q k^T and p v
  const int64_t macs = cost.work.macs;
  const int64_t scores = macs > 0 ? macs / (graph.shape(node.inputs[1])[3] * (both ? 2 : 1))
                                  : graph.shape(node.outputs[0]).elements();
  const double cached_ns = ns_at(static_cast<double>(2 * macs), rates.flops_per_ns) +
                           ns_at(static_cast<double>(scores), rates.scores_per_ns);
  const double memory_ns = ns_at(static_cast<double>(cost.bytes()), rates.memory_bytes_per_ns);
  return cached_ns + memory_share * std::max(0.0, memory_ns - cached_ns);
}

}  // namespace ridge::cost
