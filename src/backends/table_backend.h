// SPDX-License-Identifier: Apache-2.0
// What a backend answers the passes out of its table of
// kernels. Not the table, and not how kernels are bound.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "backends/backend.h"

namespace ridge::backends {

// `find` gives an op's entry, or null. An entry has takes_input, takes_output, in_place,
// workspace_bytes and unsupported, as backends/cpu/cpu_kernel.h describes them.
template <typename Kernel, const Kernel* (*find)(std::string_view op)>
class TableBackend : public Backend {
 public:
  std::string unsupported(const Graph& graph, const Node& node) const final {
    if (node.op->kind == OpKind::kView) return "";
    const Kernel* kernel = find(node.op->name);
    if (kernel == nullptr) return fmt::format("the {} backend has no kernel for it", name());
    for (const auto* values : {&node.inputs, &node.outputs})
      for (ValueId value : *values) {
        DType dtype = graph.type(value).dtype;
        if (values == &node.inputs && reads_stored(*kernel, dtype)) continue;
        if (dtype != DType::kF32 && dtype != DType::kBF16 && dtype != DType::kI32)
          return fmt::format(
              "the {} backend computes on f32 and bf16, and on i32 for ids, not on {}", name(),
              ridge::name(dtype));
      }
    return kernel->unsupported == nullptr ? "" : kernel->unsupported(CallTypes(graph, node).call());
  }

  bool takes_input(const Graph& graph, const Node& node, int i, const Layout& layout) const final {
    const Kernel* kernel = find(node.op->name);
    return kernel != nullptr && kernel->takes_input != nullptr &&
           kernel->takes_input(CallTypes(graph, node).call(), i, layout);
  }

  bool takes_output(const Graph& graph, const Node& node, int i, const Layout& layout) const final {
    const Kernel* kernel = find(node.op->name);
    return kernel != nullptr && kernel->takes_output != nullptr &&
           kernel->takes_output(CallTypes(graph, node).call(), i, layout);
  }

  bool runs_in_place(const Graph&, const Node& node, int, int) const final {
    const Kernel* kernel = find(node.op->name);
    return kernel != nullptr && kernel->in_place;
  }

  int64_t workspace_bytes(const Graph& graph, const Node& node) const final {
    const Kernel* kernel = find(node.op->name);
    if (kernel == nullptr || kernel->workspace_bytes == nullptr) return 0;
    return kernel->workspace_bytes(CallTypes(graph, node).call());
  }

 private:
  // Whether the kernel reads an operand of this type as files store it.
  virtual bool reads_stored(const Kernel&, DType) const { return false; }
};

}  // namespace ridge::backends
