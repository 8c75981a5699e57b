// SPDX-License-Identifier: Apache-2.0
// Chooses as matmul.cc binds.
#include "backends/cpu/product_names.h"

#include <vector>

#include "backends/cpu/gemm.h"
#include "backends/cpu/kernel_table.h"
#include "backends/cpu/quantized_matmul.h"
#include "ops/registry.h"

namespace ridge::backends::cpu {
namespace {

std::vector<Operand> dense(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<Operand> operands;
  for (const ValueId value : values) {
    const Type& type = graph.type(value);
    operands.push_back({nullptr, type, dense_strides(type.shape)});
  }
  return operands;
}

}  // namespace

std::string product_kernel(const Graph& graph, const Node& node) {
  if (!is_a(node, ops::matmul_op())) return "";
  const BindCall bind{.graph = graph,
                      .node = node,
                      .inputs = dense(graph, node.inputs),
                      .outputs = dense(graph, node.outputs),
                      .types = CallTypes(graph, node)};
  const Call call = bind.call();
  if (is_empty_product(call) || has_quantized_weight(call)) return "";
  if (streams_weight(bind)) return "gemv";
  const ProductPlan plan = plan_product(call, dense_layouts(call));
  if (!is_supported(plan.gemm)) return "";
  return kernel_name(default_form(plan.gemm, node.attrs.flag("native")), plan.gemm);
}

}  // namespace ridge::backends::cpu
