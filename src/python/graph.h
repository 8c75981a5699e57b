// SPDX-License-Identifier: Apache-2.0
// A graph and its values, as Python holds them.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "graph/builder.h"
#include "graph/graph.h"
#include "ops/registry.h"

namespace ridge::python {

struct PythonGraph {
  PythonGraph() = default;
  explicit PythonGraph(Graph made) : graph(std::move(made)) {}
  PythonGraph(const PythonGraph&) = delete;

  Graph graph;
  Builder builder{graph, ops::table()};
};

struct PythonValue {
  std::shared_ptr<PythonGraph> graph;
  ValueId id = kNoValue;

  const Value& value() const { return graph->graph.value(id); }
};

}  // namespace ridge::python
