// SPDX-License-Identifier: Apache-2.0
// A graph and its values, as Python holds them.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <utility>

#include "graph/builder.h"
#include "graph/graph.h"
#include "graph/graph_rule.h"
#include "ops/registry.h"

namespace ridge::python {

struct PythonGraph {
  PythonGraph() = default;
  explicit PythonGraph(Graph made) : graph(std::move(made)) {}
  PythonGraph(const PythonGraph&) = delete;

  Graph graph;
  Builder builder{graph, ops::table()};
};

// A rewrite rule, and the relative difference of its graphs.
struct PythonPass {
  GraphRule rule;
  double error = 0;
};

// A type from its name and a list of extents. Throws usage Errors.
Type type_of(nanobind::handle dtype, nanobind::handle shape);
// The attributes of an op from arguments. Throws usage Errors.
Attrs attrs_of(const Op& op, const nanobind::kwargs& given);

struct PythonValue {
  std::shared_ptr<PythonGraph> graph;
  ValueId id = kNoValue;

  const Value& value() const { return graph->graph.value(id); }
};

}  // namespace ridge::python
