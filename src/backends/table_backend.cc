// SPDX-License-Identifier: Apache-2.0
// Looks up each node's kernel. A node without a kernel supports no extra layouts and needs no
// workspace.
#include "backends/table_backend.h"

#include <fmt/format.h>

#include "base/error.h"

namespace ridge::backends {
namespace {

bool is_computed_on(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kI32;
}

bool is_quantized(DType dtype) { return is_block(dtype) || dtype == DType::kF16; }

}  // namespace

std::string TableBackend::unsupported(const Graph& graph, const Node& node) const {
  if (node.op->kind == OpKind::kView) return "";
  const Kernel* kernel = find(node);
  if (kernel == nullptr) return fmt::format("the {} backend has no kernel for it", name());
  for (const auto* values : {&node.inputs, &node.outputs})
    for (ValueId value : *values) {
      DType dtype = graph.type(value).dtype;
      if (values == &node.inputs && kernel->takes_quantized && is_quantized(dtype)) continue;
      if (kernel->takes_quant_cache && (dtype == DType::kI8 || dtype == DType::kF8E4M3)) continue;
      if (dtype == DType::kF16 && kernel->computes_f16) continue;
      if (dtype == DType::kF16)
        return fmt::format("the {} backend has no kernel for it in f16", name());
      if (!is_computed_on(dtype))
        return fmt::format("the {} backend computes on f32 and bf16, and on i32 for ids, not on {}",
                           name(), ridge::name(dtype));
    }
  return kernel->unsupported ? kernel->unsupported(CallTypes(graph, node).call()) : "";
}

bool TableBackend::takes_input(const Graph& graph,
                               const Node& node,
                               int i,
                               const Layout& layout) const {
  const Kernel* kernel = find(node);
  return kernel != nullptr && kernel->takes_input != nullptr &&
         kernel->takes_input(CallTypes(graph, node).call(), i, layout);
}

bool TableBackend::takes_output(const Graph& graph,
                                const Node& node,
                                int i,
                                const Layout& layout) const {
  const Kernel* kernel = find(node);
  return kernel != nullptr && kernel->takes_output != nullptr &&
         kernel->takes_output(CallTypes(graph, node).call(), i, layout);
}

bool TableBackend::takes_start(const Graph& graph, const Node& node, int i, int64_t offset) const {
  const Kernel* kernel = find(node);
  DType dtype = graph.type(node.inputs[static_cast<size_t>(i)]).dtype;
  return kernel == nullptr || kernel->vector_bytes == 1 ||
         storage_bytes(dtype, offset) % kernel->vector_bytes == 0;
}

bool TableBackend::runs_in_place(const Graph&, const Node& node, int, int) const {
  const Kernel* kernel = find(node);
  return kernel != nullptr && kernel->in_place;
}

int64_t TableBackend::workspace_bytes(const Graph& graph, const Node& node) const {
  const Kernel* kernel = find(node);
  if (kernel == nullptr || !kernel->workspace_bytes) return 0;
  return kernel->workspace_bytes(CallTypes(graph, node).call());
}

int TableBackend::launches(const Graph& graph, const Node& node) const {
  const Kernel* kernel = find(node);
  if (kernel == nullptr || !kernel->launches) return 1;
  return kernel->launches(CallTypes(graph, node).call());
}

std::optional<int64_t> TableBackend::shared_bytes(const Graph& graph, const Node& node) const {
  const Kernel* kernel = find(node);
  if (kernel == nullptr || !kernel->shared_bytes) return {};
  return kernel->shared_bytes(CallTypes(graph, node).call());
}

Launch TableBackend::bind(const BindCall& call) {
  const Kernel* kernel = find(call.node);
  RIDGE_CHECK(kernel != nullptr, "no {} kernel for '{}'", name(), call.node.op->name);
  return kernel->bind(call);
}

}  // namespace ridge::backends
