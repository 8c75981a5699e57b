// SPDX-License-Identifier: Apache-2.0
// The cost of a graph, in all and per node, as Python holds it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cost/ceilings.h"
#include "cost/costed_graph.h"
#include "cost/predict.h"
#include "python/report.h"
#include "record/bench_record.h"

namespace ridge::python {

struct GraphCost {
  record::BenchPoint point;
  std::shared_ptr<const cost::CostedGraph> costed;
  std::vector<cost::NodePrediction> predictions;  // empty without ceilings
};
GraphCost cost_of(Graph graph, const plan::Target& target, const cost::Ceilings* ceilings);

// The totals, and a row for each node that runs.
std::string cost_text(const GraphCost& cost);
std::string measurement_text(const record::BenchPoint& point);
// The cost, the memory, and a picture of the memory.
Report plan_report(const GraphCost& cost);

}  // namespace ridge::python
