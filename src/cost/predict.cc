// SPDX-License-Identifier: Apache-2.0
// The time model: compute time from counts and rates, memory time from reuse distances and
// bandwidths, and the run of a graph from its nodes.
#include "cost/predict.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/fragment_tiles.h"
#include "base/shape.h"
#include "cost/attention_time.h"
#include "cost/collective_time.h"
#include "cost/memory_time.h"
#include "cost/product_call.h"
#include "cost/product_time.h"
#include "cost/program_time.h"
#include "cost/quantized_time.h"
#include "cost/row_time.h"
#include "graph/einsum.h"
#include "ops/registry.h"

namespace ridge::cost {
namespace {

TimeLaw time_law(const Op& op) {
  return op.kind == OpKind::kPointwise ? TimeLaw::kAccessPattern : op.time_law;
}

// Those of a data sheet; a measured machine has samples of GEMMs.
int64_t tiled_multiprocessors(const Ceilings& ceilings) {
  return ceilings.machine.threads == 0 ? ceilings.machine.cores : 0;
}

// The warps that dequantize a weight in fragment tiles multiply it too, so its products come on top
// of reading it, which is done again for every kRowsAtOnce rows. kShare of the peak is what 1 to 64
// rows took on an H200 (docs/runs/2026-11-29-quantized-launches-h200.md).
void fragment_product(const Type& x,
                      const NodeCost& cost,
                      const Ceilings& ceilings,
                      NodePrediction& p) {
  constexpr int64_t kRowsAtOnce = 64;
  constexpr double kShare = 0.55;
  p.compute_ns =
      ns_at(static_cast<double>(2 * cost.work.macs), kShare * ceilings.peak_flops_per_ns(x.dtype));
  p.memory_ns *= static_cast<double>(ceil_div(x.shape[0], kRowsAtOnce));
  p.ns = p.compute_ns + p.memory_ns + p.overhead_ns;
}

class Predictor {
 public:
  Predictor(const CostedGraph& costed, const Ceilings& ceilings)
      : costed_(costed),
        graph_(costed.graph),
        places_(costed.places),
        ceilings_(ceilings),
        bandwidth_(ceilings),
        products_(tiled_multiprocessors(ceilings)) {}

  NodePrediction node(size_t index, const MemoryTime& memory) {
    const Node& node = graph_.nodes[index];
    const NodeCost& cost = costed_.costs[index];
    NodePrediction p;
    if (cost.launches == 0) return p;
    const bool alone = runs_alone(index);
    const double threads = alone ? std::max(1, ceilings_.machine.threads) : 1;
    const bool parallel = !alone && ceilings_.parallel_threshold_bytes > 0;
    if (cost.bytes() > 0)
      p.flops_per_byte = static_cast<double>(cost.work.flops) / static_cast<double>(cost.bytes());
    const double launches_ns =
        cost.launches * ceilings_.launch_ns + cost.rounds * ceilings_.round_ns;
    p.overhead_ns = launches_ns + (parallel ? ceilings_.parallel_ns : 0);
    p.memory_ns = (memory.ns + slower_reads_ns(node, memory)) * threads;
    TimeLaw law = time_law(*node.op);
    if (const std::optional<QuantizedGemms> quantized =
            quantized_gemms(node, memory.stored_share)) {
      p.compute_ns = threads * quantized->compute_ns;
      p.overhead_ns = launches_ns + quantized->rounding_ns;
      // One team of threads runs all such kernels of a graph.
      if (parallel && !std::exchange(has_team_, true)) p.overhead_ns += ceilings_.parallel_ns;
      p.ns = std::max(p.compute_ns, p.memory_ns) + p.overhead_ns;
    } else if (is_gemm(node) && has_fragments(node) && !cost.calls_library) {
      fragment_product(graph_.type(node.inputs[0]), cost, ceilings_, p);
    } else if (law == TimeLaw::kProduct && cost.rounds == 0 &&
               (!is_weight_quantized(node) || has_fragments(node))) {
      product(node, cost, memory, p);
    } else if (law == TimeLaw::kAccessPattern) {
      const ProgramTime time = program_time(costed_, ceilings_, node, cost.work);
      p.compute_ns = threads * time.compute_ns;
      p.ns = p.overhead_ns + (time.overlaps_memory ? std::max(p.compute_ns, p.memory_ns)
                                                   : p.compute_ns + p.memory_ns);
    } else if (const std::optional<double> cached_ns =
                   cache_op_ns(graph_, ceilings_, node, cost, memory.stored_share)) {
      p.compute_ns = threads * *cached_ns;
      p.overhead_ns = launches_ns;
      p.ns = std::max(p.compute_ns, p.memory_ns) + p.overhead_ns;
    } else {
      bool attends = law == TimeLaw::kAttention || law == TimeLaw::kAttentionBackward;
      if (const std::optional<double> measured_ns = measured_rows_ns(graph_, ceilings_, node)) {
        p.compute_ns = threads * *measured_ns;
      } else {
        p.compute_ns = attends ? attention_ns(graph_, ceilings_, node, cost.work)
                               : threads * fused_ns(ceilings_, cost.work, factor_type(node));
        p.compute_ns += threads * rows_ns(graph_, ceilings_, node, cost.work);
      }
      if (parallel) {
        const double imbalance = load_imbalance(graph_, ceilings_, node);
        p.compute_ns *= imbalance;
        p.memory_ns *= imbalance;
      }
      if (double call_ns = attends ? attention_call_ns(graph_, ceilings_, node) : 0; call_ns > 0)
        p.overhead_ns = call_ns;
      // A skinny GEMM reads during its trips, after the kernel before it, but little of a large
      // weight.
      constexpr double kReadInTrips = 4 << 20;
      if (is_gemm(node))
        p.overhead_ns -=
            std::min({std::max(p.compute_ns, p.memory_ns), cost.rounds * ceilings_.round_ns,
                      ns_at(kReadInTrips, ceilings_.memory_bytes_per_ns())});
      p.ns = std::max(p.compute_ns, p.memory_ns) + p.overhead_ns;
    }
    DType dtype = rounded_to(node).value_or(
        graph_.type(node.inputs.empty() ? node.outputs[0] : node.inputs[0]).dtype);
    p.limit_ns =
        std::max(ns_at(static_cast<double>(2 * cost.work.macs), ceilings_.peak_flops_per_ns(dtype)),
                 memory.ns * threads);
    p.bound = p.overhead_ns > std::max(p.compute_ns, p.memory_ns) ? Bound::kOverhead
              : p.compute_ns >= p.memory_ns                       ? Bound::kCompute
                                                                  : Bound::kMemory;
    return p;
  }

 private:
  // Kernels below the threshold run on one thread, at one thread's share of the rates.
  bool runs_alone(size_t node) const {
    return costed_.calls[node].shared_bytes.value_or(costed_.costs[node].bytes()) <
           ceilings_.parallel_threshold_bytes;
  }

  // Attention over a KV cache multiplies its queries as they are, others without samples in fp32.
  DType factor_type(const Node& node) const {
    const bool attends = is_a(node, ops::cached_attention_op());
    return rounded_to(node).value_or(attends ? graph_.type(node.inputs[0]).dtype : DType::kF32);
  }

  // All GEMMs of a node with quantized weights.
  struct QuantizedGemms {
    double compute_ns = 0;
    double rounding_ns = 0;  // rounding the activations takes it
  };

  // Empty if the node has other GEMMs or none, or if these were not measured.
  std::optional<QuantizedGemms> quantized_gemms(const Node& node, double memory_share) const {
    const bool is_group = is_a(node, ops::quantized_matmul_op());
    if (!is_group && !(is_a(node, ops::matmul_op()) && node.inputs.size() == 2 &&
                       parse_einsum(node.attrs.text("einsum")).is_projection()))
      return {};
    const Type& x = graph_.type(node.inputs[0]);
    const DType rounded = rounded_to(node).value_or(x.dtype);
    QuantizedGemms sum;
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      const Type& weight = graph_.type(node.inputs[i]);
      const QuantizedRates* rates =
          ceilings_.quantized_rates(weight.dtype, is_block(weight.dtype) ? rounded : x.dtype);
      if (rates == nullptr || (rates->most_tokens > 0 && x.shape[0] > rates->most_tokens))
        return {};
      QuantizedTime time = quantized_time(*rates, x.shape[0]);
      sum.rounding_ns = std::max(sum.rounding_ns, static_cast<double>(x.shape[1]) * time.ns_per_in);
      time.ns_per_in = 0;  // once for all weights
      sum.compute_ns += quantized_gemm_ns(time, memory_share, weight.shape[0], x.shape[1],
                                          !is_block(weight.dtype));
    }
    return sum;
  }

  // A product of few rows takes so much longer to read its weight than a kernel that only reads.
  double slower_reads_ns(const Node& node, const MemoryTime& memory) const {
    constexpr int64_t kMostRows = 64;
    if (!is_gemm(node) || is_weight_quantized(node)) return 0;
    const Type& x = graph_.type(node.inputs[0]);
    const double rate = ceilings_.product(x.dtype).row_bytes_per_ns;
    if (rate <= 0 || x.shape.elements() > kMostRows * x.shape.back()) return 0;
    return memory.stored_ns * std::max(0.0, ceilings_.memory_reads_per_ns() / rate - 1);
  }

  // Whether the weight is quantized or 16-bit while activations are fp32. Another kernel than that
  // of the sampled GEMMs runs then, bounded by its own bytes and by its FLOPs at the peak rate.
  bool is_weight_quantized(const Node& node) const {
    return graph_.type(node.inputs[1]).dtype != graph_.type(node.inputs[0]).dtype;
  }

  static bool is_gemm(const Node& node) {
    return time_law(*node.op) == TimeLaw::kProduct || is_a(node, ops::skinny_gemm_op());
  }
  bool has_fragments(const Node& node) const {
    return is_fragments(graph_.type(node.inputs[1]).dtype);
  }
  // Before the library multiplies it, a weight in fragment tiles is unpacked slice by slice: it is
  // read and written, and the products read it from a cache.
  double unpack_ns(const Node& node, const NodeCost& cost) const {
    if (!has_fragments(node) || !cost.calls_library) return 0;
    const Type &x = graph_.type(node.inputs[0]), &weight = graph_.type(node.inputs[1]);
    const int64_t elements = weight.shape.elements();
    return (cost.launches - 1) * ceilings_.launch_ns +
           ns_at(static_cast<double>(storage_bytes(weight.dtype, elements) +
                                     storage_bytes(x.dtype, elements)),
                 ceilings_.memory_bytes_per_ns());
  }

  // The samples of GEMMs include the overhead of the call.
  void product(const Node& node,
               const NodeCost& cost,
               const MemoryTime& memory,
               NodePrediction& p) {
    CallTypes types(graph_, node);
    if (has_fragments(node)) types.inputs[1].dtype = types.inputs[0].dtype;
    ProductCall call =
        product_call(types.call(), at(places_, node.inputs[0]).layout,
                     at(places_, node.inputs[1]).layout, at(places_, node.outputs[0]).layout);
    const ProductRates& rates = ceilings_.product(call.dtype, call.is_native);
    p.compute_ns = call.extents.flops() > 0 ? products_.ns(rates, call.form, call.extents) : 0;
    if (call.power_of_two_rows) p.compute_ns *= rates.power_of_two_slowdown;
    // A sampled GEMM runs again and again. One between other kernels begins with its code, its
    // arguments and the first tiles of its weight, which come from memory one after the other.
    constexpr double kColdTrips = 3;
    if (!rates.samples.empty())
      p.overhead_ns = kColdTrips * memory.stored_share * ceilings_.round_ns;
    const double exposed_ns =
        exposed_memory_share(rates, call.form, bandwidth_) * memory.beyond_caches_ns;
    p.ns = std::max(p.compute_ns + exposed_ns, p.memory_ns) + p.overhead_ns + unpack_ns(node, cost);
  }

  const CostedGraph& costed_;
  const Graph& graph_;
  const std::vector<plan::Place>& places_;
  const Ceilings& ceilings_;
  const Bandwidth bandwidth_;
  ProductTimes products_;
  bool has_team_ = false;
};

// The additional host time of a GEMM's library call over that of another launch. The node's other
// launches copy operands.
double library_ns(const Graph& graph,
                  const Node& node,
                  const NodeCost& cost,
                  const Ceilings& ceilings) {
  if (!cost.calls_library) return 0;
  const ProductRates& rates = ceilings.product(graph.type(node.inputs[0]).dtype);
  const Shape& shape = graph.type(node.outputs[0]).shape;
  const bool is_row = shape.rank() > 0 && shape.elements() == shape[shape.rank() - 1];
  const double call_ns =
      is_row && rates.stream_row_call_ns > 0 ? rates.stream_row_call_ns : rates.stream_call_ns;
  return call_ns > 0 ? call_ns - ceilings.stream_launch_ns : 0;
}

// The host's time for a node's launches.
double enqueue_ns(const CostedGraph& costed, size_t node, const Ceilings& ceilings) {
  const NodeCost& cost = costed.costs[node];
  return cost.launches * ceilings.stream_launch_ns +
         library_ns(costed.graph, costed.graph.nodes[node], cost, ceilings);
}

// Launches one by one: the host enqueues one after the other, and the device runs each as soon as
// it is enqueued and the previous one has ended.
double streamed_ns(const CostedGraph& costed,
                   const std::vector<NodePrediction>& predictions,
                   const Ceilings& ceilings) {
  double enqueued_ns = 0, done_ns = 0;
  for (size_t i = 0; i < predictions.size(); ++i) {
    enqueued_ns += enqueue_ns(costed, i, ceilings);
    done_ns = std::max(enqueued_ns, done_ns) + predictions[i].ns;
  }
  return done_ns;
}

// The share of the device that a kernel occupies. A kernel that alone reaches a share u of its
// limit either has too few blocks for all multiprocessors, which leaves room for others, or
// underuses the multiprocessors that it has, which leaves little room. u^(1/4) lies between the
// two; it was chosen from whole steps of a preset on an H200
// (docs/runs/2026-11-22-prediction-gpu-two-hosts.md).
// A collective is bound by its link and takes few multiprocessors.
double share_of_device(const Node& node, const NodePrediction& kernel) {
  if (is_collective(node)) return 0;
  return kernel.ns > 0 ? std::pow(std::min(1.0, kernel.limit_ns / kernel.ns), 0.25) : 0;
}

// A kernel starts when its dependences have ended. Concurrent kernels run at full speed while their
// shares fit on the device; beyond that, all slow down in proportion.
double side_by_side_ns(const CostedGraph& costed, const std::vector<NodePrediction>& predictions) {
  const std::vector<std::vector<NodeId>>& after = costed.branches->after;
  struct Running {
    size_t node;
    double left_ns;  // remaining time if it ran alone
  };
  std::vector<std::vector<size_t>> waiting(predictions.size());  // nodes that wait for this node
  std::vector<size_t> awaited(predictions.size());               // number that this node waits for
  std::vector<Running> running;
  for (size_t i = 0; i < predictions.size(); ++i) {
    if (costed.costs[i].launches == 0) continue;
    awaited[i] = after[i].size();
    for (NodeId before : after[i]) waiting[static_cast<size_t>(before)].push_back(i);
    if (awaited[i] == 0) running.push_back({i, predictions[i].ns});
  }
  double now_ns = 0;
  while (!running.empty()) {
    double shares = 0, next_ns = running.front().left_ns;
    for (const Running& each : running) {
      shares += share_of_device(costed.graph.nodes[each.node], predictions[each.node]);
      next_ns = std::min(next_ns, each.left_ns);
    }
    now_ns += next_ns * std::max(1.0, shares);
    std::vector<Running> still_running;
    for (const Running& each : running) {
      if (each.left_ns > next_ns) {
        still_running.push_back({each.node, each.left_ns - next_ns});
        continue;
      }
      for (size_t user : waiting[each.node])
        if (--awaited[user] == 0) still_running.push_back({user, predictions[user].ns});
    }
    running = std::move(still_running);
  }
  return now_ns;
}

}  // namespace

std::optional<DType> rounded_to(const Node& node) {
  if (!node.attrs.has("activations") || node.attrs.text("activations") == "f32") return {};
  return parse_dtype(node.attrs.text("activations"));
}

std::string_view left_out_of_inference(const Ceilings& ceilings) {
  if (ceilings.round_ns == 0 || tiled_multiprocessors(ceilings) > 0) return "";
  return "Predictions leave out that few multiprocessors read the cold weight of a narrow GEMM, and the host's "
         "time for the graph of a prompt: short prompts of small models take longer.";
}

std::string_view name(Bound bound) {
  constexpr std::string_view kNames[] = {"-", "compute", "memory", "overhead", "link"};
  return kNames[static_cast<size_t>(bound)];
}

std::vector<NodePrediction> predict_nodes(const CostedGraph& costed, const Ceilings& ceilings) {
  Predictor predictor(costed, ceilings);
  const std::vector<MemoryTime> memory = memory_times(costed, ceilings);
  std::vector<NodePrediction> predictions;
  for (size_t i = 0; i < memory.size(); ++i)
    predictions.push_back(is_collective(costed.graph.nodes[i])
                              ? predict_collective(costed, i, ceilings)
                              : predictor.node(i, memory[i]));
  return predictions;
}

double total_ns(const std::vector<NodePrediction>& predictions) {
  double sum = 0;
  for (const NodePrediction& each : predictions) sum += each.ns;
  return sum;
}

double predict_run_ns(const CostedGraph& costed,
                      const std::vector<NodePrediction>& predictions,
                      const Ceilings& ceilings) {
  if (costed.branches) return side_by_side_ns(costed, predictions);
  return costed.replays ? total_ns(predictions) : streamed_ns(costed, predictions, ceilings);
}

double predict_run_ns(const CostedGraph& costed, const Ceilings& ceilings) {
  return predict_run_ns(costed, predict_nodes(costed, ceilings), ceilings);
}

double predict_repeated_ns(const CostedGraph& costed,
                           const std::vector<NodePrediction>& predictions,
                           const Ceilings& ceilings) {
  if (costed.replays) {
    // The host needs so long to ask for a replay. From the last kernel of one to the first of the
    // next, a GPU idles about as long; a single kernel needs no graph, and the next one begins
    // sooner.
    constexpr double kReplayNs = 2500, kNextNs = 600;
    const double run_ns = predict_run_ns(costed, predictions, ceilings);
    return total(costed.costs).launches > 1 ? kReplayNs + run_ns
                                            : std::max(kReplayNs, run_ns + kNextNs);
  }
  if (costed.branches) return predict_run_ns(costed, predictions, ceilings);
  double enqueued_ns = 0;
  for (size_t i = 0; i < predictions.size(); ++i) enqueued_ns += enqueue_ns(costed, i, ceilings);
  return std::max(enqueued_ns, total_ns(predictions));
}

double predict_product_ns(const ProductRates& rates,
                          ProductForm form,
                          const ProductExtents& extents) {
  return extents.flops() > 0 ? ProductTimes().ns(rates, form, extents) : 0;
}

Roof gemm_roof(const Ceilings& ceilings, DType dtype) {
  return {std::string(name(dtype)) + " GEMM", ceilings.peak_flops_per_ns(dtype)};
}

Roof vector_roof(const Ceilings& ceilings) { return {"vector", ceilings.fused_flops_per_ns}; }

Roof roof(const Ceilings& ceilings, DType dtype, const Work& work, int64_t bytes) {
  const bool is_vector = 4 * work.macs < work.flops && ceilings.fused_flops_per_ns > 0;
  Roof arithmetic = is_vector ? vector_roof(ceilings) : gemm_roof(ceilings, dtype);
  const double memory = ceilings.memory_bytes_per_ns() * static_cast<double>(work.flops) /
                        static_cast<double>(std::max<int64_t>(bytes, 1));
  return memory < arithmetic.flops_per_ns ? Roof{"memory", memory} : arithmetic;
}

}  // namespace ridge::cost
