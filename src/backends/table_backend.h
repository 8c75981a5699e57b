// SPDX-License-Identifier: Apache-2.0
// Implements the part of Backend that follows from its table of kernels: the answers to passes and
// the binding of nodes. The table itself is the derived class's.
#pragma once

#include <optional>
#include <string>

#include "backends/kernel.h"

namespace ridge::backends {

class TableBackend : public Backend {
 public:
  std::string unsupported(const Graph& graph, const Node& node) const final;
  bool takes_input(const Graph& graph, const Node& node, int i, const Layout& layout) const final;
  bool takes_output(const Graph& graph, const Node& node, int i, const Layout& layout) const final;
  bool takes_start(const Graph& graph, const Node& node, int i, int64_t offset) const final;
  bool runs_in_place(const Graph& graph, const Node& node, int o, int i) const final;
  int64_t workspace_bytes(const Graph& graph, const Node& node) const final;
  int launches(const Graph& graph, const Node& node) const final;
  std::optional<int64_t> shared_bytes(const Graph& graph, const Node& node) const final;
  Launch bind(const BindCall& call) override;

 protected:
  // The node's kernel, or null.
  const Kernel* find(const Node& node) const { return kernels().find(node.op->name); }

 private:
  virtual const KernelTable& kernels() const = 0;
};

}  // namespace ridge::backends
