// SPDX-License-Identifier: Apache-2.0
// The cost of one node, or of all nodes of an op, with formula and numbers. Not a subcommand.
#pragma once

#include <string>

#include "base/terminal.h"
#include "cost/ceilings.h"
#include "graph/graph.h"
#include "plan/target.h"

namespace ridge::apps {

// Whether a node of the graph makes `value`.
bool makes(const Graph& graph, ValueId value);
// The node that makes `value`. A usage Error where the graph has no such node.
std::string explain_node(const Graph& graph,
                         ValueId value,
                         const plan::Target& target,
                         const cost::Ceilings& ceilings);

// The op's formula and its nodes, those of equal types in one row.
std::string explain_op(const Graph& graph,
                       const Op& op,
                       const plan::Target& target,
                       const cost::Ceilings& ceilings,
                       const TerminalOptions& options);

}  // namespace ridge::apps
