// SPDX-License-Identifier: Apache-2.0
// The counts of a run from the graphs that it runs: arithmetic, bytes, launches, predicted time and
// planned memory. Nothing here measures a graph.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/target.h"
#include "record/run_record.h"
#include "record/step_record.h"

namespace ridge::record {

// One graph of a run with everything that its counts need.
struct CountedGraph {
  std::string name;
  int64_t repeat = 1;
  const Graph* graph = nullptr;
  const std::vector<plan::Place>* places = nullptr;
  const plan::MemoryPlan* plan = nullptr;
  const std::vector<cost::NodeCost>* costs = nullptr;
};

// Fills the counts, the predicted time and the planned memory of the record; returns the graphs as
// the step record wants them. `ceilings` may be null: then nothing is predicted.
std::vector<MeasuredGraph> count_graphs(std::span<const CountedGraph> graphs,
                                        const plan::Target& target,
                                        const cost::Ceilings* ceilings,
                                        RunRecord& record);

// The time of a step of the graphs, as count_graphs predicts it; `measured` is what that returned.
double predict_step_ns(std::span<const CountedGraph> graphs,
                       std::span<const MeasuredGraph> measured,
                       const plan::Target& target,
                       const cost::Ceilings& ceilings);

// The parts of the layers whose scope ends in `name` ("layer.3/mlp"), with the times of the step's
// nodes; `step` is what make_step_record made of the measured graphs.
ModuleRecord module_record(std::string_view name,
                           std::span<const CountedGraph> graphs,
                           const StepRecord& step);

// The time of one reading of the clock that times kernels, measured.
double clock_reading_ns();

}  // namespace ridge::record
