// SPDX-License-Identifier: Apache-2.0
// The time model: compute time from counts and rates, memory time from reuse distances and
// bandwidths.
#include "cost/predict.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/shape.h"
#include "cost/collective_time.h"
#include "cost/memory_time.h"
#include "cost/product_call.h"
#include "cost/product_time.h"
#include "cost/quantized_time.h"
#include "cost/row_time.h"
#include "graph/einsum.h"
#include "ops/attention.h"
#include "ops/registry.h"

namespace ridge::cost {
namespace {

TimeLaw time_law(const Op& op) {
  return op.kind == OpKind::kPointwise ? TimeLaw::kAccessPattern : op.time_law;
}

// The traversal of one operand, after merging the axes of the domain through which all operands
// step evenly.
struct AccessPattern {
  int64_t runs = 1;   // number of runs along the innermost axis
  int64_t step = 1;   // stride along it
  bool dense = true;  // the runs are contiguous
};

std::vector<AccessPattern> access_patterns(const Shape& domain,
                                           const std::vector<Strides>& strides) {
  std::vector<int64_t> dims;
  std::vector<std::vector<int64_t>> steps(strides.size());
  for (int axis = 0; axis < domain.rank(); ++axis) {
    if (domain[axis] == 1) continue;
    bool joins = !dims.empty();
    for (size_t i = 0; joins && i < strides.size(); ++i)
      joins = steps[i].back() == strides[i][axis] * domain[axis];
    if (joins)
      dims.back() *= domain[axis];
    else
      dims.push_back(domain[axis]);
    for (size_t i = 0; i < strides.size(); ++i) {
      if (joins)
        steps[i].back() = strides[i][axis];
      else
        steps[i].push_back(strides[i][axis]);
    }
  }
  std::vector<AccessPattern> all(strides.size());
  if (dims.empty()) return all;
  const Strides dense = dense_strides(Shape(dims));
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = {domain.elements() / std::max<int64_t>(dims.back(), 1), steps[i].back(),
              Strides(std::span<const int64_t>(steps[i])) == dense};
  return all;
}

double over(double amount, double rate) { return rate > 0 ? amount / rate : 0; }

class Predictor {
 public:
  Predictor(const CostedGraph& costed, const Ceilings& ceilings)
      : costed_(costed),
        graph_(costed.graph),
        places_(costed.places),
        ceilings_(ceilings),
        bandwidth_(ceilings) {}

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
    p.memory_ns = memory.ns * threads;
    TimeLaw law = time_law(*node.op);
    if (const std::optional<QuantizedGemms> quantized =
            quantized_gemms(node, memory.stored_share)) {
      p.compute_ns = threads * quantized->compute_ns;
      p.overhead_ns = launches_ns + quantized->rounding_ns;
      // One team of threads runs all such kernels of a graph.
      if (parallel && !std::exchange(has_team_, true)) p.overhead_ns += ceilings_.parallel_ns;
      p.ns = std::max(p.compute_ns, p.memory_ns) + p.overhead_ns;
    } else if (law == TimeLaw::kProduct && cost.rounds == 0 && !is_weight_quantized(node)) {
      product(node, memory, p);
    } else if (law == TimeLaw::kAccessPattern) {
      program(node, cost.work, threads, p);
    } else if (const CacheRates* rates = cache_rates(node)) {
      p.compute_ns = threads * cache_ns(node, cost, *rates, memory.stored_share);
      p.overhead_ns = launches_ns;
      p.ns = std::max(p.compute_ns, p.memory_ns) + p.overhead_ns;
    } else {
      bool attends = law == TimeLaw::kAttention || law == TimeLaw::kAttentionBackward;
      if (const std::optional<double> measured_ns = measured_rows_ns(node)) {
        p.compute_ns = threads * *measured_ns;
      } else {
        p.compute_ns = attends
                           ? attention_ns(node, cost)
                           : threads * fused_ns(cost.work, rounded_to(node).value_or(DType::kF32));
        p.compute_ns += threads * rows_ns(node, cost.work);
      }
      if (parallel) {
        const double imbalance = load_imbalance(node);
        p.compute_ns *= imbalance;
        p.memory_ns *= imbalance;
      }
      if (double call_ns = attends ? attention_call_ns(node) : 0; call_ns > 0)
        p.overhead_ns = call_ns;
      // A skinny GEMM reads its weight during its trips, after the kernel before it.
      if (law == TimeLaw::kProduct || is_a(node, ops::skinny_gemm_op()))
        p.overhead_ns -=
            std::min(std::max(p.compute_ns, p.memory_ns), cost.rounds * ceilings_.round_ns);
      p.ns = std::max(p.compute_ns, p.memory_ns) + p.overhead_ns;
    }
    DType dtype = rounded_to(node).value_or(
        graph_.type(node.inputs.empty() ? node.outputs[0] : node.inputs[0]).dtype);
    p.limit_ns =
        std::max(over(static_cast<double>(2 * cost.work.macs), ceilings_.peak_flops_per_ns(dtype)),
                 p.memory_ns);
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

  // Null for a prompt, whose tokens attend in tiles, and if the op was not measured.
  const CacheRates* cache_rates(const Node& node) const {
    if (node.inputs.empty()) return nullptr;
    if (is_a(node, ops::cached_attention_op()) &&
        graph_.shape(node.inputs[0])[0] > graph_.shape(node.inputs[5])[0])
      return nullptr;
    const size_t cache = is_a(node, ops::cached_mask_op()) ? 0 : 1;
    if (node.inputs.size() <= cache) return nullptr;
    return ceilings_.cache_rates(node.op->name, graph_.type(node.inputs[cache]).dtype);
  }

  double cache_ns(const Node& node,
                  const NodeCost& cost,
                  const CacheRates& rates,
                  double memory_share) const {
    const bool both = is_a(node, ops::cached_attention_op());  // q k^T and p v
    const int64_t macs = cost.work.macs;
    const int64_t scores = macs > 0 ? macs / (graph_.shape(node.inputs[1])[3] * (both ? 2 : 1))
                                    : graph_.shape(node.outputs[0]).elements();
    const double cached_ns = over(static_cast<double>(2 * macs), rates.flops_per_ns) +
                             over(static_cast<double>(scores), rates.scores_per_ns);
    const double memory_ns = over(static_cast<double>(cost.bytes()), rates.memory_bytes_per_ns);
    return cached_ns + memory_share * std::max(0.0, memory_ns - cached_ns);
  }

  // Whether the weight is quantized or 16-bit while activations are fp32. Another kernel than that
  // of the sampled GEMMs runs then, bounded by its own bytes and by its FLOPs at the peak rate.
  bool is_weight_quantized(const Node& node) const {
    return graph_.type(node.inputs[1]).dtype != graph_.type(node.inputs[0]).dtype;
  }

  // The samples of GEMMs include the overhead of the call.
  void product(const Node& node, const MemoryTime& memory, NodePrediction& p) {
    CallTypes types(graph_, node);
    ProductCall call =
        product_call(types.call(), at(places_, node.inputs[0]).layout,
                     at(places_, node.inputs[1]).layout, at(places_, node.outputs[0]).layout);
    const ProductRates& rates = ceilings_.product(call.dtype, call.is_native);
    p.compute_ns = call.extents.flops() > 0 ? products_.ns(rates, call.form, call.extents) : 0;
    if (call.power_of_two_rows) p.compute_ns *= rates.power_of_two_slowdown;
    if (!rates.samples.empty()) p.overhead_ns = 0;
    const double exposed_ns =
        exposed_memory_share(rates, call.form, bandwidth_) * memory.beyond_caches_ns;
    p.ns = std::max(p.compute_ns + exposed_ns, p.memory_ns) + p.overhead_ns;
  }

  static bool is_backward(const Node& attention) {
    return attention.op->time_law == TimeLaw::kAttentionBackward;
  }
  const Type& queries(const Node& attention) const {
    return graph_.type(attention.inputs[is_backward(attention) ? 1 : 0]);
  }
  const AttentionRates* attention_rates(const Node& attention) const {
    const AttentionRates* rates = nullptr;
    for (const AttentionRates& each : ceilings_.attention)
      if (each.dtype == queries(attention).dtype || rates == nullptr) rates = &each;
    return rates;
  }
  double attention_call_ns(const Node& attention) const {
    const AttentionRates* rates = attention_rates(attention);
    if (rates == nullptr) return 0;
    return is_backward(attention) ? rates->backward_call_ns : rates->forward_call_ns;
  }

  double attention_ns(const Node& node, const NodeCost& cost) {
    bool backward = is_backward(node);
    const Type& q = queries(node);
    const AttentionRates* rates = attention_rates(node);
    if (rates == nullptr)
      return over(static_cast<double>(2 * cost.work.macs), ceilings_.peak_flops_per_ns(q.dtype)) +
             fused_ns({0, cost.work.flops - 2 * cost.work.macs, cost.work.transcendentals});
    // The rates of the backward pass are those of each score once, also where kernels recompute it.
    double size = static_cast<double>(q.shape.back());
    double scores =
        backward ? static_cast<double>(ops::flash_backward_scores(CallTypes(graph_, node).call()))
                 : static_cast<double>(cost.work.macs) / std::max(2 * size, 1.0);
    double flops = (backward ? 10 : 4) * size * scores;
    const double slowdown =
        slowdown_at(node.attrs.has("sequence") ? node.attrs.integer("sequence") : q.shape[0],
                    backward ? rates->backward_short_slowdown : rates->forward_short_slowdown);
    return slowdown * (backward ? over(flops, rates->backward_flops_per_ns) +
                                      over(scores, rates->backward_scores_per_ns)
                                : over(flops, rates->forward_flops_per_ns) +
                                      over(scores, rates->forward_scores_per_ns));
  }

  // Linear in the logarithm of the sequence's length.
  static double slowdown_at(int64_t tokens, double short_slowdown) {
    const double low = static_cast<double>(AttentionRates::kShortTokens),
                 high = static_cast<double>(AttentionRates::kLongTokens),
                 length = static_cast<double>(std::max<int64_t>(tokens, 1));
    const double share = std::clamp(std::log(high / length) / std::log(high / low), 0.0, 1.0);
    return 1 + share * (short_slowdown - 1);
  }

  // The compute time of kernels with operands in registers.
  double fused_ns(const Work& work, DType products = DType::kF32) const {
    double plain = static_cast<double>(
        std::max<int64_t>(0, work.flops - 2 * work.macs - work.transcendentals));
    return over(static_cast<double>(2 * work.macs), ceilings_.peak_flops_per_ns(products)) +
           over(plain, ceilings_.fused_flops_per_ns) +
           over(static_cast<double>(work.transcendentals), ceilings_.transcendentals_per_ns);
  }

  bool is_by_rows(const Node& node) const {
    return is_a(node, ops::rms_norm_op()) || is_a(node, ops::softmax_op()) ||
           is_a(node, ops::log_softmax_op()) ||
           (is_a(node, ops::reduce_sum_op()) && reduces_rows(node));
  }

  // Empty for other nodes and for what was not measured: sums into another type for instance.
  std::optional<double> measured_rows_ns(const Node& node) const {
    if (!is_by_rows(node)) return {};
    const Type& x = graph_.type(node.inputs[0]);
    if (graph_.type(node.outputs[0]).dtype != x.dtype) return {};
    const std::optional<double> ns =
        row_ns_per_element(ceilings_, node.op->name, x.dtype, x.shape.back());
    if (!ns) return {};
    return *ns * static_cast<double>(x.shape.elements());
  }

  // How much longer the thread with the most rows takes than if all had as many.
  double load_imbalance(const Node& node) const {
    if (!is_by_rows(node)) return 1;
    const Shape& shape = graph_.shape(node.inputs[0]);
    const int64_t rows = shape.elements() / std::max<int64_t>(shape.back(), 1),
                  threads = std::max(1, ceilings_.machine.threads);
    if (rows == 0) return 1;
    return static_cast<double>(ceil_div(rows, threads) * threads) / static_cast<double>(rows);
  }

  // The part of a row kernel's time that the width of its rows does not change.
  double rows_ns(const Node& node, const Work& work) const {
    if (!is_by_rows(node)) return 0;
    const Shape& shape = graph_.shape(node.inputs[0]);
    const double rows = static_cast<double>(shape.elements() / std::max<int64_t>(shape.back(), 1));
    const bool has_exponentials = static_cast<double>(work.transcendentals) > 2 * rows;
    return over(rows,
                has_exponentials ? ceilings_.exponential_rows_per_ns : ceilings_.rows_per_ns) +
           row_conversions_ns(node);
  }
  // bf16 is widened and rounded in registers.
  double row_conversions_ns(const Node& node) const {
    const auto elements = [&](ValueId value) {
      const Type& type = graph_.type(value);
      return type.dtype == DType::kBF16 ? static_cast<double>(type.shape.elements()) : 0;
    };
    return over(elements(node.inputs[0]), ceilings_.widened_elements_per_ns) +
           over(elements(node.outputs[0]), ceilings_.narrowed_elements_per_ns);
  }
  bool reduces_rows(const Node& node) const {
    const std::vector<int64_t>& axes = node.attrs.integers("axes");
    return !axes.empty() && axes.back() == graph_.shape(node.inputs[0]).rank() - 1;
  }

  // Instructions read and write dense operands directly, so that memory and arithmetic overlap.
  // Other operands pass through registers a tile at a time, before and after the instructions, so
  // that the times add up.
  void program(const Node& node, const Work& work, double threads, NodePrediction& p) {
    // One function on dense bf16 converts in registers, where memory and arithmetic overlap too.
    const bool is_narrow = is_dense_bf16(node);
    const double conversion = is_narrow ? 0 : conversion_ns(node);
    p.compute_ns =
        threads * (is_narrow ? narrow_ns(node, work) : program_ns(node, work) + conversion);
    p.ns = p.overhead_ns +
           (conversion > 0 ? p.compute_ns + p.memory_ns : std::max(p.compute_ns, p.memory_ns));
  }

  // Each instruction of a program loads its operands from L1 and stores its result there. The
  // operations inside an instruction are fused.
  double program_ns(const Node& node, Work work) const {
    if (const double ns = functions_ns(node); ns > 0) return ns;
    int64_t instructions = node.op->kind == OpKind::kPointwise ? 1 : 0;
    if (node.attrs.has("program"))
      instructions = static_cast<int64_t>(node.attrs.nested("program").nodes.size());
    int64_t steps = instructions * graph_.shape(node.outputs[0]).elements();
    work.flops = std::max<int64_t>(0, work.flops - steps);
    return over(static_cast<double>(steps), ceilings_.arithmetic_flops_per_ns) + fused_ns(work);
  }

  // The same by the rate of each function; 0 if one was not measured.
  double functions_ns(const Node& node) const {
    const double elements = static_cast<double>(graph_.shape(node.outputs[0]).elements());
    if (!node.attrs.has("program"))
      return over(elements, ceilings_.function_elements_per_ns(node.op->name));
    double ns = 0;
    for (const Node& each : node.attrs.nested("program").nodes) {
      const double rate = ceilings_.function_elements_per_ns(each.op->name);
      if (rate == 0) return 0;
      ns += elements / rate;
    }
    return ns;
  }

  // Whether it is a single function whose operands are all dense bf16, on a machine whose
  // conversions were measured.
  bool is_dense_bf16(const Node& node) const {
    if (node.op->kind != OpKind::kPointwise || ceilings_.narrowed_elements_per_ns == 0)
      return false;
    const Shape& shape = graph_.shape(node.outputs[0]);
    std::vector<ValueId> operands = node.inputs;
    operands.push_back(node.outputs[0]);
    for (ValueId each : operands)
      if (graph_.type(each).dtype != DType::kBF16 ||
          at(places_, each).layout.strides != dense_strides(shape))
        return false;
    return true;
  }

  // The time of such a function with its conversions: what was measured, or the sum of both.
  double narrow_ns(const Node& node, const Work& work) const {
    const double elements = static_cast<double>(graph_.shape(node.outputs[0]).elements());
    if (const double rate = ceilings_.function_elements_per_ns(node.op->name + " bf16"); rate > 0)
      return elements / rate;
    return program_ns(node, work) +
           static_cast<double>(node.inputs.size()) *
               over(elements, ceilings_.widened_elements_per_ns) +
           over(elements, ceilings_.narrowed_elements_per_ns);
  }

  // The time to bring operands into registers and out of them.
  double conversion_ns(const Node& node) const {
    if (!node.op->joins)
      return conversion_ns(graph_.shape(node.outputs[0]), node.inputs, node.outputs);
    double ns = 0;
    for (ValueId part : node.inputs)
      if (at(places_, part).root != at(places_, node.outputs[0]).root)
        ns += conversion_ns(graph_.shape(part), {part}, {node.outputs[0]});
    return ns;
  }

  double conversion_ns(const Shape& domain,
                       const std::vector<ValueId>& inputs,
                       const std::vector<ValueId>& outputs) const {
    std::vector<ValueId> operands = inputs;
    operands.insert(operands.end(), outputs.begin(), outputs.end());
    std::vector<Strides> strides;
    for (ValueId value : operands) strides.push_back(at(places_, value).layout.strides);
    std::vector<AccessPattern> each = access_patterns(domain, strides);
    double elements = static_cast<double>(domain.elements()), ns = 0;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (each[i].dense && graph_.type(operands[i]).dtype == DType::kF32) continue;
      bool by_vector = each[i].step == 1 || each[i].step == 0;
      double strided =
          i < inputs.size() ? ceilings_.strided_reads_per_ns : ceilings_.strided_writes_per_ns;
      const bool is_bf16 = graph_.type(operands[i]).dtype == DType::kBF16;
      if (is_bf16)
        ns += over(elements, i < inputs.size() ? ceilings_.widened_elements_per_ns
                                               : ceilings_.narrowed_elements_per_ns);
      ns += over(elements, by_vector ? ceilings_.staged_elements_per_ns : strided) +
            over(static_cast<double>(each[i].runs), ceilings_.runs_per_ns);
    }
    return ns;
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
  if (time_law(*node.op) != TimeLaw::kProduct || cost.launches == 0 || cost.rounds != 0 ||
      node.attrs.flag("native"))
    return 0;
  const double call_ns = ceilings.product(graph.type(node.inputs[0]).dtype).stream_call_ns;
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
  if (ceilings.round_ns == 0) return "";
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
  if (costed.replays || costed.branches) return predict_run_ns(costed, predictions, ceilings);
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
