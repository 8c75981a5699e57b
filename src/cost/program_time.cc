// SPDX-License-Identifier: Apache-2.0
// Access patterns of operands, and the rates of functions and conversions.
#include "cost/program_time.h"

#include <algorithm>

#include "base/shape.h"

namespace ridge::cost {
namespace {

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

// The time of a program by the rate of each function; 0 if one was not measured.
double functions_ns(const CostedGraph& costed, const Ceilings& ceilings, const Node& node) {
  const double elements = static_cast<double>(costed.graph.shape(node.outputs[0]).elements());
  if (!node.attrs.has("program"))
    return ns_at(elements, ceilings.function_elements_per_ns(node.op->name));
  double ns = 0;
  for (const Node& each : node.attrs.nested("program").nodes) {
    const double rate = ceilings.function_elements_per_ns(each.op->name);
    if (rate == 0) return 0;
    ns += elements / rate;
  }
  return ns;
}

// Each instruction of a program loads its operands from L1 and stores its result there. The
// operations inside an instruction are fused.
double program_ns(const CostedGraph& costed,
                  const Ceilings& ceilings,
                  const Node& node,
                  Work work) {
  if (const double ns = functions_ns(costed, ceilings, node); ns > 0) return ns;
  int64_t instructions = node.op->kind == OpKind::kPointwise ? 1 : 0;
  if (node.attrs.has("program"))
    instructions = static_cast<int64_t>(node.attrs.nested("program").nodes.size());
  int64_t steps = instructions * costed.graph.shape(node.outputs[0]).elements();
  work.flops = std::max<int64_t>(0, work.flops - steps);
  return ns_at(static_cast<double>(steps), ceilings.arithmetic_flops_per_ns) +
         fused_ns(ceilings, work);
}

// Whether it is a single function whose operands are all dense bf16, on a machine whose
// conversions were measured.
bool is_dense_bf16(const CostedGraph& costed, const Ceilings& ceilings, const Node& node) {
  if (node.op->kind != OpKind::kPointwise || ceilings.narrowed_elements_per_ns == 0) return false;
  const Shape& shape = costed.graph.shape(node.outputs[0]);
  std::vector<ValueId> operands = node.inputs;
  operands.push_back(node.outputs[0]);
  for (ValueId each : operands)
    if (costed.graph.type(each).dtype != DType::kBF16 ||
        at(costed.places, each).layout.strides != dense_strides(shape))
      return false;
  return true;
}

// The time of such a function with its conversions: what was measured, or the sum of both.
double narrow_ns(const CostedGraph& costed,
                 const Ceilings& ceilings,
                 const Node& node,
                 const Work& work) {
  const double elements = static_cast<double>(costed.graph.shape(node.outputs[0]).elements());
  if (const double rate = ceilings.function_elements_per_ns(node.op->name + " bf16"); rate > 0)
    return elements / rate;
  return program_ns(costed, ceilings, node, work) +
         static_cast<double>(node.inputs.size()) *
             ns_at(elements, ceilings.widened_elements_per_ns) +
         ns_at(elements, ceilings.narrowed_elements_per_ns);
}

double conversion_ns(const CostedGraph& costed,
                     const Ceilings& ceilings,
                     const Shape& domain,
                     const std::vector<ValueId>& inputs,
                     const std::vector<ValueId>& outputs) {
  std::vector<ValueId> operands = inputs;
  operands.insert(operands.end(), outputs.begin(), outputs.end());
  std::vector<Strides> strides;
  for (ValueId value : operands) strides.push_back(at(costed.places, value).layout.strides);
  std::vector<AccessPattern> each = access_patterns(domain, strides);
  double elements = static_cast<double>(domain.elements()), ns = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (each[i].dense && costed.graph.type(operands[i]).dtype == DType::kF32) continue;
    bool by_vector = each[i].step == 1 || each[i].step == 0;
    double strided =
        i < inputs.size() ? ceilings.strided_reads_per_ns : ceilings.strided_writes_per_ns;
    const bool is_bf16 = costed.graph.type(operands[i]).dtype == DType::kBF16;
    if (is_bf16)
      ns += ns_at(elements, i < inputs.size() ? ceilings.widened_elements_per_ns
                                              : ceilings.narrowed_elements_per_ns);
    ns += ns_at(elements, by_vector ? ceilings.staged_elements_per_ns : strided) +
          ns_at(static_cast<double>(each[i].runs), ceilings.runs_per_ns);
  }
  return ns;
}

// The time to bring operands into registers and out of them.
double conversion_ns(const CostedGraph& costed, const Ceilings& ceilings, const Node& node) {
  if (!node.op->joins)
    return conversion_ns(costed, ceilings, costed.graph.shape(node.outputs[0]), node.inputs,
                         node.outputs);
  double ns = 0;
  for (ValueId part : node.inputs)
    if (at(costed.places, part).root != at(costed.places, node.outputs[0]).root)
      ns += conversion_ns(costed, ceilings, costed.graph.shape(part), {part}, {node.outputs[0]});
  return ns;
}

}  // namespace

double fused_ns(const Ceilings& ceilings, const Work& work, DType products) {
  double plain =
      static_cast<double>(std::max<int64_t>(0, work.flops - 2 * work.macs - work.transcendentals));
  return ns_at(static_cast<double>(2 * work.macs), ceilings.peak_flops_per_ns(products)) +
         ns_at(plain, ceilings.fused_flops_per_ns) +
         ns_at(static_cast<double>(work.transcendentals), ceilings.transcendentals_per_ns);
}

ProgramTime program_time(const CostedGraph& costed,
                         const Ceilings& ceilings,
                         const Node& node,
                         const Work& work) {
  // One function on dense bf16 converts in registers, where memory and arithmetic overlap too.
  if (is_dense_bf16(costed, ceilings, node)) return {narrow_ns(costed, ceilings, node, work), true};
  const double conversion = conversion_ns(costed, ceilings, node);
  return {program_ns(costed, ceilings, node, work) + conversion, conversion == 0};
}

}  // namespace ridge::cost
